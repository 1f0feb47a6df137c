package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/integration/sample"
	"teleport-update/tools/internal/figure"
)

// record leaves the lines by which campaigns count, and how long whole targets
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
	if os.Getenv("FAULTS") != "" || os.Getenv("FAULTS_POINTS") != "" {
		// Somebody chose the points: the lines are not the suite's.
		return figure.Figures{}
	}
	add := func(line string) {
		f.Campaigns = append(f.Campaigns, figure.Campaign{Origin: figure.Measured(s.target), Line: line})
	}
	cut := false
	for _, t := range tests {
		if t.suite != s.name {
			continue
		}
		for _, p := range t.parts {
			for _, line := range p.figures {
				if sample.IsCut(line) {
					cut = true
					continue
				}
				add(line)
			}
		}
	}
	if line, whole := took(s.target, tests); whole && !cut && len(f.Campaigns) > 0 {
		add(line)
	}
	return f
}

// took says how long a target of make took, where all parts of all its suites
// ran to their ends: the time that a person waited, and that of the parts. Parts
// run side by side, so theirs is the larger one.
func took(target string, tests []*test) (line string, whole bool) {
	var sum times
	for _, s := range suites {
		if s.target != target {
			continue
		}
		var mine []*test
		for _, t := range tests {
			if t.suite == s.name {
				mine = append(mine, t)
			}
		}
		all, err := s.tests()
		if err != nil || !sum.add(s, mine) || parts(mine) != parts(all) {
			return "", false
		}
	}
	return sum.String(), true
}

// times add up how long parts took.
type times struct {
	waited, inParts time.Duration
	cached          int
	each            []string
}

// add adds the tests of a suite; it is false if a part did not run to its end.
func (s *times) add(suite suite, tests []*test) bool {
	var packages time.Duration
	for _, t := range tests {
		s.waited += t.took
		for _, p := range t.parts {
			if !p.ended {
				return false
			}
			s.inParts += p.took
			if p.cached() {
				s.cached++
			}
			if suite.name == "packages" {
				packages += p.took
				continue
			}
			s.each = append(s.each, fmt.Sprintf("%s %.0f", path.Base(p.name), p.took.Minutes()))
		}
	}
	if suite.name == "packages" {
		s.each = append(s.each, fmt.Sprintf("beside the code %.0f", packages.Minutes()))
	}
	return true
}

func (s *times) String() string {
	each := s.each
	if s.cached > 0 {
		// They took no time, and would take some on a machine that never ran them.
		each = append(each, fmt.Sprintf("cached: %d parts", s.cached))
	}
	return fmt.Sprintf("took: %.0f min, in parts %.0f min (%s)", s.waited.Minutes(), s.inParts.Minutes(), strings.Join(each, ", "))
}

func parts(tests []*test) (n int) {
	for _, t := range tests {
		n += len(t.parts)
	}
	return n
}
