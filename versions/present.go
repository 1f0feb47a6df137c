package versions

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// CheckPresent is a look at the tree that is cheap enough for every tick: each
// file of the manifest is there, regular and not empty. What is missing is a
// *DamagedError; content is for Verify to judge.
func (t Tree) CheckPresent(ctx context.Context) error {
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return fmt.Errorf("look at version %s: %w", t.Release, err)
	}
	defer root.Close()
	sums, damage, err := readManifest(root)
	if err != nil {
		return fmt.Errorf("look at version %s: %w", t.Release, err)
	}
	if damage != "" {
		return &DamagedError{Dir: t.Dir, Files: []string{damage}}
	}
	var missing []string
	for _, s := range sums {
		if what := present(root, s.name); what != "" {
			missing = append(missing, s.name+": "+what)
		}
	}
	if len(missing) == 0 {
		return ctx.Err()
	}
	slices.Sort(missing)
	return &DamagedError{Dir: t.Dir, Files: missing}
}

func present(root *os.Root, name string) string {
	info, err := root.Lstat(name)
	switch {
	case err != nil:
		return "is missing"
	case info.Mode()&fs.ModeType != 0:
		return "is not a regular file"
	case info.Size() == 0:
		return "is empty"
	}
	return ""
}
