package systemd

import (
	"path/filepath"
	"slices"
	"strings"
)

// Veils are the settings of a unit by which its processes do not see, or may not execute, some of
// the host.
type Veils struct {
	Over       []Veil
	Shown      []string // below a veil, all the same
	Executable []string // below a veil over programs
}

// Veil is one of these settings, for one path.
type Veil struct {
	Setting string // "TemporaryFileSystem=/opt"
	Path    string
	// Executes: it keeps programs from being executed, and nothing else.
	Executes bool
}

// parseVeils reads them from the properties of a unit.
func parseVeils(p map[string]any) (v Veils) {
	add := func(setting, path string, executes bool) {
		v.Over = append(v.Over, Veil{setting + "=" + path, cleaned(path), executes})
	}
	for _, path := range column(p, "TemporaryFileSystem", 0) {
		add("TemporaryFileSystem", path, false)
	}
	for _, path := range property[[]string](p, "InaccessiblePaths") {
		add("InaccessiblePaths", path, false)
	}
	for _, path := range property[[]string](p, "NoExecPaths") {
		add("NoExecPaths", path, true)
	}
	for _, path := range property[[]string](p, "ExecPaths") {
		v.Executable = append(v.Executable, cleaned(path))
	}
	for _, path := range append(column(p, "BindPaths", 1), column(p, "BindReadOnlyPaths", 1)...) {
		v.Shown = append(v.Shown, cleaned(path))
	}
	for _, name := range property[[]string](p, "StateDirectory") {
		v.Shown = append(v.Shown, filepath.Join("/var/lib", name))
	}
	return v
}

// cleaned is a path without the signs by which it may be missing, or is another root's.
func cleaned(path string) string { return filepath.Clean(strings.TrimLeft(path, "-+")) }

// column is the nth field of each structure of an array.
func column(p map[string]any, name string, n int) (texts []string) {
	for _, fields := range property[[][]any](p, name) {
		if n < len(fields) {
			if text, ok := fields[n].(string); ok {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// Hide returns the setting by which the unit's next process does not see what is at a path;
// empty if there is none. Of a program it also returns one by which it may not be executed.
func (v Veils) Hide(path string, program bool) (setting string) {
	for _, veil := range v.Over {
		if !below(path, veil.Path) || veil.Executes && !program {
			continue
		}
		again := v.Shown
		if veil.Executes {
			again = v.Executable
		}
		// What is nearer to the path counts.
		if !slices.ContainsFunc(again, func(p string) bool { return below(path, p) && below(p, veil.Path) }) {
			return veil.Setting
		}
	}
	return ""
}

// below reports whether a path is a folder, or in it.
func below(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}
