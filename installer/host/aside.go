package host

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
	"teleport-update/systemd"
	"teleport-update/versions"
	"teleport-update/versions/archive"
)

// Foreign lists the places of changes that hold something that neither stood there before nor was
// put there by the changes: somebody else put it there since. Places that cannot be looked at are
// left out.
func Foreign(changes []state.LinkChange) []string {
	var found []string
	for _, c := range changes {
		now, err := beforeOf(c.Path)
		_, occupied := errors.AsType[*occupiedError](err)
		ours := []state.Before{{}, {Link: c.Target}, {Link: c.Stood}, {Saved: c.PutBack}, c.Before}
		if occupied || err == nil && !slices.Contains(ours, now) {
			found = append(found, c.Path)
		}
	}
	return found
}

// Occupied lists the places of changes that no link replaces: folders, say.
func Occupied(changes []state.LinkChange) []string {
	var found []string
	for _, c := range changes {
		_, err := beforeOf(c.Path)
		if _, occupied := errors.AsType[*occupiedError](err); occupied && c.Target != "" {
			found = append(found, c.Path)
		}
	}
	return found
}

// ForeignUnit reports whether the agent's unit is neither what it was before nor the unit of any
// version in the store.
func (h *Host) ForeignUnit(before state.UnitFile) bool {
	path := h.Paths.Unit()
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return err == nil && target != before.Target
	case !info.Mode().IsRegular():
		return true
	}
	now, err := regular.Read(path, archive.MaxUnit, regular.NoLink)
	if err != nil {
		return true // no unit is so large
	}
	units, _ := filepath.Glob(filepath.Join(h.Paths.Programs(), "*", "etc", "systemd", "*.service")) // the FIPS unit, too
	return !bytes.Equal(now, before.Content) && !slices.ContainsFunc(units, func(unit string) bool {
		content, err := regular.Read(unit, archive.MaxUnit, 0)
		// A unit that was placed has the arguments from before as well.
		return err == nil && (bytes.Equal(content, now) || bytes.Equal(systemd.WithArguments(content, h.kept(content)), now))
	})
}

// KeepForeignUnit keeps a copy of the agent's unit if it is of no version, and returns the name of
// the copy: somebody wrote the unit, and it is about to be replaced. One content is kept once, even
// if it is written again and again.
func (h *Host) KeepForeignUnit() (kept string, err error) {
	path := h.Paths.Unit()
	content, err := regular.Read(path, archive.MaxUnit, regular.NoLink)
	if err != nil || len(content) == 0 || !h.ForeignUnit(state.UnitFile{}) {
		return "", nil // there is nothing to keep
	}
	kept = fmt.Sprintf("%s.aside-%x", path, sha256.Sum256(content))[:len(path)+len(".aside-")+16]
	if Exists(kept) {
		return kept, nil
	}
	return kept, durable.WriteFile(kept, content, 0o644)
}

// SetAside gives the file at a path another name, beside it, durably.
func SetAside(path, to string) error {
	if err := durable.Rename(path, to); err != nil {
		return fmt.Errorf("keep %s aside: %w", path, err)
	}
	return nil
}

// CanRevert checks, without changing anything, whether links and unit can go back: the folders of
// those that have to can be written.
func CanRevert(changes []state.LinkChange, unit state.UnitFile) error {
	var dirs []string
	for _, c := range changes {
		if !isBack(c) {
			dirs = append(dirs, filepath.Dir(c.Path))
		}
	}
	if now, err := ReadUnit(unit.Path); unit.Path != "" && (err != nil || !SameUnit(now, unit)) {
		dirs = append(dirs, filepath.Dir(unit.Path))
	}
	return checkWritable(dirs)
}

// CanPlace is CanRevert for a version that is to be linked, by changes, and to be started
// by its unit.
func (h *Host) CanPlace(changes []state.LinkChange, tree versions.Tree) error {
	var dirs []string
	for _, c := range changes {
		dirs = append(dirs, filepath.Dir(c.Path))
	}
	if is, err := h.hasUnitOf(tree); err != nil || !is {
		dirs = append(dirs, h.Paths.UnitDir)
	}
	return checkWritable(dirs)
}

// checkWritable asks the kernel, which knows a file system that is read-only, and a folder that
// nobody may change. For a missing folder, it asks about the one above.
func checkWritable(dirs []string) error {
	slices.Sort(dirs)
	for _, dir := range slices.Compact(dirs) {
		for !Exists(dir) {
			dir = filepath.Dir(dir)
		}
		if err := unix.Access(dir, unix.W_OK); err != nil {
			return &os.PathError{Op: "write in", Path: dir, Err: err}
		}
	}
	return nil
}

// SameUnit compares the file of a unit at two times.
func SameUnit(a, b state.UnitFile) bool {
	sameMode := !a.Regular || a.Mode == b.Mode
	return a.Regular == b.Regular && string(a.Content) == string(b.Content) && a.Target == b.Target && sameMode
}
