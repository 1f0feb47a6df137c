package versions

import (
	"context"
	"io/fs"

	"teleport-update/internal/trust"
)

// CheckPresent is a look at the tree that is cheap enough for every tick: each
// file of the manifest is there, regular, not empty and nobody else's to change,
// and no other would be linked. Where it differs, the error is a *DamagedError; the
// content is for Verify to judge.
func (t Tree) CheckPresent(ctx context.Context) error {
	return t.compare(ctx, "look at", (*verifier).presence)
}

func (v *verifier) presence(sums []sum) {
	for _, s := range sums {
		v.listed[s.name] = true
		info, err := v.root(s.name).Lstat(s.name)
		switch {
		case err != nil:
			v.found(s.name, "is missing")
		case info.Mode()&fs.ModeType != 0:
			v.found(s.name, "is not a regular file")
		case info.Size() == 0:
			v.found(s.name, "is empty")
		case !trust.Sealed(info), info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
			v.found(s.name, openToOthers)
		}
	}
}
