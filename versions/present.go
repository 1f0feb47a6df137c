package versions

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"teleport-update/internal/durable"
	"teleport-update/internal/trust"
)

// CheckPresent looks at the tree, cheaply enough for every tick: each file of the manifest exists, is regular,
// is not empty and is nobody else's to change, and no other file would be linked. Files that changed after the
// manifest was written are read, too: `cp` onto one of our links writes through it. If the tree differs, the
// error is a *DamagedError; only Verify checks the content of all files.
func (t Tree) CheckPresent(ctx context.Context) error {
	return t.compare(ctx, "look at", (*verifier).presence)
}

// SeeWhole is CheckPresent for a caller that may change the tree: files that changed and still have their content,
// as after a restored backup or a change of labels, are not read again the next time.
func (t Tree) SeeWhole(ctx context.Context) error {
	began, read := time.Now(), []string(nil)
	err := t.compare(ctx, "look at", func(v *verifier, sums []sum) {
		v.presence(sums)
		for _, s := range v.changed {
			read = append(read, filepath.Join(v.root(s.name).Name(), s.name))
		}
	})
	if err != nil || len(read) == 0 {
		return err
	}
	_ = durable.Touch(filepath.Join(t.Dir, manifestName)) // else they are read again
	for _, path := range read {
		if info, err := os.Lstat(path); err == nil && changedAt(info).After(began.Add(-clockStep)) {
			time.Sleep(clockStep)
			_ = durable.Touch(path) // it changed while it was read, maybe after that
		}
	}
	return nil
}

// clockStep is longer than a step of the kernel's clock for files.
const clockStep = 20 * time.Millisecond

// AgentChanged reports whether the agent's program was written, or its mode or owner changed, after the manifest was
// written: its content may differ.
func (t Tree) AgentChanged() bool {
	manifest, err1 := os.Lstat(filepath.Join(t.Dir, manifestName))
	program, err2 := os.Lstat(t.Binary(agentName))
	return err1 == nil && err2 == nil && changedAt(program).After(changedAt(manifest))
}

func (v *verifier) presence(sums []sum) {
	written := time.Time{}
	if manifest, err := v.record.Lstat(manifestName); err == nil {
		written = changedAt(manifest)
	}
	var changed []sum
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
		case changedAt(info).After(written):
			changed = append(changed, s)
		}
	}
	if v.changed = changed; len(changed) > 0 {
		v.files(changed)
	}
}

// changedAt returns when the content, mode, owner or labels of a file changed last. A program cannot set it.
func changedAt(info os.FileInfo) time.Time {
	at, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(at.Ctim.Unix())
}
