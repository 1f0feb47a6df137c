package versions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"teleport-update/internal/trust"
)

// CheckPresent is a look at the tree that is cheap enough for every tick: each
// file of the manifest is there, regular, not empty and nobody else's to change,
// and no other would be linked. Where it differs, the error is a *DamagedError; the
// content is for Verify to judge.
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
	v := &verifier{ctx: ctx, root: root, listed: make(map[string]bool)}
	for _, s := range sums {
		v.listed[s.name] = true
		if what := present(root, s.name); what != "" {
			v.found(s.name, what)
		}
	}
	v.strangers()
	if err := errors.Join(v.errs...); err != nil {
		return fmt.Errorf("look at version %s: %w", t.Release, err)
	}
	if len(v.damage) == 0 {
		return ctx.Err()
	}
	slices.Sort(v.damage)
	return &DamagedError{Dir: t.Dir, Files: v.damage}
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
	case !trust.Sealed(info), info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return openToOthers
	}
	return ""
}
