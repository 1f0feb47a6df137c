// Package figure keeps what was measured: docs/development/figures.json has all of it, and the
// docs quote that file. Whoever measures, a benchmark, a campaign of faults or the
// mutants, leaves its part in build/figures (Record); `make figures` puts the parts
// into the file (Merge) and has the docs quote them (Render).
package figure

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Paths from the folder of the module.
const (
	File   = "docs/development/figures.json"
	Folder = "build/figures"
)

// Figures are all that was measured, or a part of it.
type Figures struct {
	Benchmarks map[string]Benchmark `json:"benchmarks,omitempty"`
	Campaigns  []Campaign           `json:"campaigns,omitempty"`
}

// Origin is where a figure comes from.
type Origin struct {
	By     string `json:"by"`     // as in "make bench"
	Commit string `json:"commit"` // that was measured; "-dirty" behind it: with changes
	Date   string `json:"date"`   // 2006-01-02
}

// Benchmark is the table that one benchmark ends with.
type Benchmark struct {
	Origin
	Machine string   `json:"machine"`
	Notes   []string `json:"notes,omitempty"`
	Rows    []Row    `json:"rows"`
}

// Row is one value. Without a unit it is a ratio.
type Row struct {
	What    string  `json:"what"`
	Medians string  `json:"medians,omitempty"` // what a ratio was made of
	Value   float64 `json:"value"`
	Unit    string  `json:"unit,omitempty"`
	Goal    float64 `json:"goal,omitempty"` // the most that the value should be
	HasGoal bool    `json:"has_goal,omitempty"`
}

// Campaign is the line that a campaign of faults ends with, as in "kill points:
// 3729, violations: 0".
type Campaign struct {
	Origin
	Line string `json:"line"`
}

// Name is what the line counts: its text up to the colon.
func (c Campaign) Name() string {
	name, _, _ := strings.Cut(c.Line, ":")
	return name
}

// Read reads a file of figures. One that is not there holds none.
func Read(path string) (Figures, error) {
	var f Figures
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(data, &f)
}

// Write writes a file of figures.
func (f Figures) Write(path string) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// Record leaves figures for `make figures`, under the name of who measured them.
func (f Figures) Record(module, name string) error {
	return f.Write(filepath.Join(module, Folder, name+".json"))
}

// Recorded reads what was left, oldest first: of two figures for the same thing
// the newer one counts.
func Recorded(module string) ([]Figures, error) {
	paths, err := filepath.Glob(filepath.Join(module, Folder, "*.json"))
	if err != nil {
		return nil, err
	}
	times := map[string]time.Time{}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		times[p] = info.ModTime()
	}
	slices.SortFunc(paths, func(a, b string) int { return times[a].Compare(times[b]) })
	var all []Figures
	for _, p := range paths {
		f, err := Read(p)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// Merge puts newer figures in the place of those that they replace: a table by its
// name, a line by who made it and what it counts.
func (f Figures) Merge(newer Figures) Figures {
	merged := Figures{Benchmarks: map[string]Benchmark{}, Campaigns: slices.Clone(f.Campaigns)}
	maps.Copy(merged.Benchmarks, f.Benchmarks)
	maps.Copy(merged.Benchmarks, newer.Benchmarks)
	for _, c := range newer.Campaigns {
		same := func(old Campaign) bool { return old.By == c.By && old.Name() == c.Name() }
		if i := slices.IndexFunc(merged.Campaigns, same); i >= 0 {
			merged.Campaigns[i] = c
		} else {
			merged.Campaigns = append(merged.Campaigns, c)
		}
	}
	return merged
}
