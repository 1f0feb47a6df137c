// Command vulndb lays out the reports of the module golang.org/x/vulndb as the database that govulncheck
// reads, so that no server is asked and a check gives the same answer until the module's version is another:
//
//	vulndb MODULE-FOLDER DATABASE-FOLDER
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// advisory is as much of one as an index says.
type advisory struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
		Ranges []struct {
			Events []struct {
				Fixed string `json:"fixed"`
			} `json:"events"`
		} `json:"ranges"`
	} `json:"affected"`
}

type entry struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Fixed    string    `json:"fixed,omitempty"`
}

type module struct {
	Path  string  `json:"path"`
	Vulns []entry `json:"vulns"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: vulndb MODULE-FOLDER DATABASE-FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "vulndb:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	paths, err := filepath.Glob(filepath.Join(from, "data", "osv", "GO-*.json"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("%s has no reports", from)
	}
	for _, dir := range []string{"index", "ID"} {
		if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
			return err
		}
	}
	modules := map[string][]entry{}
	var latest time.Time
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var r advisory
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if r.Modified.After(latest) {
			latest = r.Modified
		}
		index(modules, r)
		if err := os.WriteFile(filepath.Join(to, "ID", r.ID+".json"), text, 0o644); err != nil {
			return err
		}
	}
	var all []module
	for path, entries := range modules {
		all = append(all, module{path, entries})
	}
	if err := write(filepath.Join(to, "index", "modules.json"), all); err != nil {
		return err
	}
	return write(filepath.Join(to, "index", "db.json"), map[string]time.Time{"modified": latest})
}

// index notes a report at each module that it is about, once.
func index(modules map[string][]entry, r advisory) {
	seen := map[string]bool{}
	for _, a := range r.Affected {
		name := a.Package.Name
		if seen[name] {
			continue
		}
		seen[name] = true
		e := entry{ID: r.ID, Modified: r.Modified}
		for _, span := range a.Ranges {
			for _, event := range span.Events {
				if event.Fixed != "" {
					e.Fixed = event.Fixed
				}
			}
		}
		modules[name] = append(modules[name], e)
	}
}

func write(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
