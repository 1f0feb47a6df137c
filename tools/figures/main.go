// Command figures puts what was measured into docs/development/figures.json, and has the pages
// beside it quote it. It measures nothing itself: benchmarks, campaigns and mutants leave
// their figures in build/figures.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"teleport-update/tools/internal/figure"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(module string) error {
	path := filepath.Join(module, figure.File)
	all, err := figure.Read(path)
	if err != nil {
		return err
	}
	newer, err := figure.Recorded(module)
	if err != nil {
		return err
	}
	for _, f := range newer {
		all = all.Merge(f)
	}
	pages, err := filepath.Glob(filepath.Join(module, "docs", "development", "*.md"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		old, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		text, places, err := all.Render(string(old))
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		if text == string(old) {
			continue
		}
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d places with figures\n", page, places)
	}
	return all.Write(path)
}
