package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/tools/internal/figure"
)

// record leaves the lines by which campaigns count, and how long whole suites
// took, for `make figures`.
func record(tests []*test) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, s := range suites {
		measured := s.measured(tests)
		if len(measured.Campaigns) == 0 {
			continue
		}
		before, err := figure.Read(filepath.Join(dir, figure.Folder, s.name+".json"))
		if err != nil {
			return err
		}
		if err := before.Merge(measured).Record(dir, s.name); err != nil {
			return err
		}
	}
	return nil
}

func (s suite) measured(tests []*test) (f figure.Figures) {
	var took time.Duration
	var each []string
	whole := os.Getenv("FAULTS") == "" && os.Getenv("FAULTS_POINTS") == ""
	for _, t := range tests {
		if t.suite != s.name {
			continue
		}
		for _, p := range t.parts {
			took += p.took
			each = append(each, fmt.Sprintf("%s %.0f", path.Base(p.name), p.took.Minutes()))
			for _, line := range p.figures {
				f.Campaigns = append(f.Campaigns, figure.Campaign{Origin: figure.Measured(s.target), Line: line})
			}
		}
	}
	if !whole {
		// Somebody chose the points: the lines are not the suite's.
		return figure.Figures{}
	}
	if all, err := s.tests(); err == nil && len(f.Campaigns) > 0 && len(each) == parts(all) {
		line := fmt.Sprintf("took: %.0f min (%s)", took.Minutes(), strings.Join(each, ", "))
		f.Campaigns = append(f.Campaigns, figure.Campaign{Origin: figure.Measured(s.target), Line: line})
	}
	return f
}

func parts(tests []*test) (n int) {
	for _, t := range tests {
		n += len(t.parts)
	}
	return n
}
