package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
)

// DropSaved removes the copy of a regular file that stands in its place again. If something else
// stands there by now, the copy stays: there is no other.
func DropSaved(c state.LinkChange, originalDir string) error {
	if c.Before.Saved == "" || !isBack(c) {
		return nil
	}
	err := durable.Remove(filepath.Join(originalDir, c.Before.Saved))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func save(c state.LinkChange, originalDir string) error {
	if c.Before.Saved == "" {
		now, err := beforeOf(c.Path)
		if err == nil && now.Link != "" && !slices.Contains([]string{c.Before.Link, c.Stood, c.Target}, now.Link) {
			err = fmt.Errorf("%s leads to %s since the transaction was planned", c.Path, now.Link)
		}
		return err
	}
	saved := filepath.Join(originalDir, c.Before.Saved)
	if _, err := os.Lstat(saved); err == nil {
		return nil // saves are whole or not there
	}
	if now, err := beforeOf(c.Path); err != nil {
		return err
	} else if now != c.Before {
		return fmt.Errorf("%s changed since the transaction was planned", c.Path)
	}
	if err := durable.MkdirAll(originalDir, 0o755); err != nil {
		return err
	}
	return durable.CloneFile(c.Path, saved)
}

// untouched reports whether a change of a regular file was not made: its copy is
// not there, and neither is the link.
func untouched(c state.LinkChange, originalDir string) bool {
	if c.Before.Saved == "" {
		return false
	}
	if _, err := os.Lstat(filepath.Join(originalDir, c.Before.Saved)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	target, err := os.Readlink(c.Path)
	if err == nil {
		return target != c.Target
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EINVAL)
}

// restore makes path the regular file that was saved.
func restore(path, saved, originalDir string) error {
	info, err := os.Lstat(path)
	if err == nil && info.Mode().IsRegular() {
		if now, err := beforeOf(path); err != nil || now.Saved == saved {
			return err
		}
		return fmt.Errorf("%s is not the updater's file; it stays until somebody moves it away", path)
	}
	if spareHolds(path, saved) {
		return durable.SwapSpare(path)
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.CloneFile(filepath.Join(originalDir, saved), path)
}

// takeBack makes path the link that it was before a saved file took its place.
func takeBack(c state.LinkChange) error {
	now, err := beforeOf(c.Path)
	if err != nil {
		return err
	}
	return set(c.Path, c.Before.Link, now.Saved == c.PutBack)
}

// set makes path a link to target, or removes the link if target is empty. A regular file gives way
// only if it was saved.
func set(path, target string, saved bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if target == "" {
			return nil
		}
		if err := durable.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		if now, err := os.Readlink(path); err != nil || now == target {
			return err
		}
	case !info.Mode().IsRegular() || !saved:
		return fmt.Errorf("%s is in the way and was not there when the transaction was planned; it stays", path)
	}
	if target == "" {
		return durable.UnlinkNoSync(path)
	}
	if to, err := os.Readlink(durable.Spare(path)); err == nil && to == target {
		return durable.SwapSpare(path)
	}
	return durable.RelinkNoSync(target, path)
}

func syncFolders(changes []state.LinkChange) error {
	done := make(map[string]bool)
	for _, c := range changes {
		dir := filepath.Dir(c.Path)
		if done[dir] {
			continue
		}
		done[dir] = true
		if err := durable.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// isBack reports whether a place holds, again or still, what stood there before a change.
func isBack(c state.LinkChange) bool {
	now, err := beforeOf(c.Path)
	return err == nil && now == c.Before
}

// beforeOf returns what stands at a path now.
func beforeOf(path string) (state.Before, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return state.Before{}, nil
	case err != nil:
		return state.Before{}, err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return state.Before{Link: target}, err
	case info.Mode().IsRegular():
		digest, err := digestOf(path, regular.NoLink)
		return state.Before{Saved: filepath.Base(path) + "-" + digest[:min(len(digest), 16)]}, err
	case info.IsDir():
		return state.Before{}, &occupiedError{path, "a folder", "a link"}
	}
	return state.Before{}, &occupiedError{path, "neither a file nor a link", "a link"}
}

// occupiedError is something in the place of a link, or of the agent's unit, that neither replaces.
type occupiedError struct{ path, what, belongs string }

func (e *occupiedError) Error() string {
	return fmt.Sprintf("%s is %s, and %s must go there: move it away", e.path, e.what, e.belongs)
}

// InTheWay returns, from an error of Problems, what is in the place of a link or of the agent's unit and stays there
// until a person moves it away; it is empty for any other error, as of a look that failed.
func InTheWay(err error) string {
	if occupied, ok := errors.AsType[*occupiedError](err); ok {
		return occupied.Error()
	}
	return ""
}

func digestOf(path string, care regular.Care) (string, error) {
	f, _, err := regular.Open(path, care)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
