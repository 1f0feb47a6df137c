package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"teleport-update/tools/internal/figure"
)

var minutes = regexp.MustCompile(`^took: (\d+ min)`)

// expected says what will run, and for how long: as long as it took when it was measured, if all of it runs.
func expected(names []string, only string, all []*part) string {
	text := fmt.Sprintf("%d parts", len(all))
	if only != "" {
		return text
	}
	measured, err := figure.Read(filepath.Join("docs", "development", "figures.json"))
	if err != nil {
		return text
	}
	for _, c := range measured.Campaigns {
		m := minutes.FindStringSubmatch(c.Line)
		if m != nil && slices.Equal(names, suitesOf(c.By)) {
			return fmt.Sprintf("%s; `%s` took %s on %s", text, c.By, m[1], c.Date)
		}
	}
	return text
}

// suitesOf returns the suites of a target of make.
func suitesOf(target string) (names []string) {
	for _, s := range suites {
		if s.target == target {
			names = append(names, s.name)
		}
	}
	return names
}
