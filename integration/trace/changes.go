package trace

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// Changes runs a command and returns what it changes and syncs, in order, once where it
// does the same several times in a row: the calls by name, with their files relative to
// a folder. No test that looks at the files afterwards can tell whether they were synced,
// as long as the power stays on.
func Changes(ctx context.Context, cmd Command, dir string) ([]string, Result, error) {
	var changes []string
	result, err := Run(ctx, cmd, func(c Call) Action {
		if !c.Exit {
			changes = append(changes, c.in(dir))
		}
		return GoOn()
	})
	return slices.Compact(changes), result, err
}

// in names a call, its files relative to the folder. Which of several calls is made for
// one thing depends on the library and the file system.
func (c Call) in(dir string) string {
	words := []string{c.Name}
	switch c.Name {
	case "renameat", "renameat2":
		words[0] = "rename"
	case "copy_file_range", "sendfile", "splice":
		words[0] = "write"
	}
	for _, path := range []string{c.Path, c.To} {
		if path == "" {
			continue
		}
		if rel, err := filepath.Rel(dir, path); err == nil {
			path = rel
		}
		words = append(words, path)
	}
	return strings.Join(words, " ")
}
