package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/layout"
)

// dropInNames are the names whose folders of drop-ins add to a unit, those that rank first before the others (systemd.unit(5)): its
// own, those that end at a dash of it, as "a-.service" of "a-b.service", those of its aliases, and its type.
func dropInNames(name string, dirs []string) (all []string) {
	kind := filepath.Ext(name)
	for _, n := range append([]string{name}, aliasesOf(name, dirs)...) {
		all = append(all, n)
		stem := strings.TrimSuffix(n, kind)
		for i := len(stem) - 2; i > 0; i-- {
			if stem[i] == '-' {
				all = append(all, stem[:i+1]+kind)
			}
		}
	}
	return append(all, strings.TrimPrefix(kind, "."))
}

// aliasesOf are the other names of a unit: links in the folders of units that lead to its name. A folder that cannot be read has none.
// The folders of packages, which have hundreds of units, are left out: each run of the timer asks, and Alias= makes its links elsewhere.
func aliasesOf(name string, dirs []string) (all []string) {
	for _, dir := range dirs {
		if slices.Contains(layout.PackageUnitDirs, dir) {
			continue
		}
		entries, err := within(func() ([]os.DirEntry, error) { return os.ReadDir(dir) })
		if err != nil {
			continue
		}
		for _, e := range entries {
			alias := e.Type()&os.ModeSymlink != 0 && e.Name() != name && filepath.Ext(e.Name()) == filepath.Ext(name)
			if !alias {
				continue
			}
			if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && filepath.Base(target) == name {
				all = append(all, e.Name())
			}
		}
	}
	return all
}
