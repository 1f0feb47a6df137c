package faults

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// entry is one file, folder or link of a tree.
type entry struct {
	path     string // relative to the tree
	mode     fs.FileMode
	uid, gid uint32
	digest   string // of a regular file
	target   string // of a link
}

func (e entry) String() string {
	what := e.mode.String()
	switch {
	case e.target != "":
		what += " -> " + e.target
	case e.digest != "":
		what += " " + e.digest[:12]
	}
	return fmt.Sprintf("%s %s %d:%d", e.path, what, e.uid, e.gid)
}

// stable is the entry without the content of a volatile file.
func (e entry) stable() entry {
	if volatile(e.path) {
		e.digest = ""
	}
	return e
}

// readTree lists a tree, sorted; one that is not there is empty.
func readTree(dir string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		e, err := readEntry(path)
		e.path = rel
		entries = append(entries, e)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && len(entries) == 0 {
		return nil, nil
	}
	return entries, err
}

func readEntry(path string) (entry, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return entry{}, err
	}
	st := info.Sys().(*syscall.Stat_t)
	e := entry{path: path, mode: info.Mode(), uid: st.Uid, gid: st.Gid}
	switch {
	case e.mode.IsRegular():
		var data []byte
		if data, err = os.ReadFile(path); err == nil {
			e.digest = digestOf(data)
		}
	case e.mode&fs.ModeSymlink != 0:
		e.target, err = os.Readlink(path)
	}
	return e, err
}

// diff says what differs between two trees, but for what cannot be the same.
func diff(want, got []entry) []string {
	except := func(path string) bool {
		base := filepath.Base(path)
		return strings.HasSuffix(path, "-wal") || strings.HasSuffix(path, "-shm") || base == "find.json" || base == "history.json" || base == "update_config.yaml" || base == "settled"
	}
	var lines []string
	have := make(map[string]entry, len(got))
	for _, e := range got {
		have[e.path] = e.stable()
	}
	for _, e := range want {
		e = e.stable()
		g, ok := have[e.path]
		delete(have, e.path)
		switch {
		case except(e.path):
		case !ok:
			lines = append(lines, "missing: "+e.String())
		case g != e:
			lines = append(lines, fmt.Sprintf("changed: %v, was %v", g, e))
		}
	}
	for _, e := range have {
		if !except(e.path) {
			lines = append(lines, "too much: "+e.String())
		}
	}
	slices.Sort(lines)
	return lines
}

// copyTree makes to a copy of from, which may be missing. What is in to goes
// away; the folder itself stays, for it may be a mount.
func copyTree(from, to string) error {
	if err := empty(to); err != nil {
		return err
	}
	entries, err := readDirs(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.path), filepath.Join(to, e.path)
		switch {
		case e.mode.IsDir():
			if err = os.Mkdir(target, 0o700); errors.Is(err, fs.ErrExist) {
				err = nil
			}
			if err == nil {
				err = os.Chmod(target, e.mode.Perm())
			}
		case e.mode.IsRegular():
			err = copyFile(source, target, e.mode.Perm())
		case e.target != "":
			err = os.Symlink(e.target, target)
		default:
			err = fmt.Errorf("%s is no file, folder or link", source)
		}
		if err == nil && os.Geteuid() == 0 {
			err = os.Lchown(target, int(e.uid), int(e.gid))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readDirs is readTree without reading any file.
func readDirs(dir string) ([]entry, error) {
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		e := entry{path: strings.TrimPrefix(path[len(dir):], "/"), mode: info.Mode(), uid: st.Uid, gid: st.Gid}
		if e.mode&fs.ModeSymlink != 0 {
			e.target, err = os.Readlink(path)
		}
		entries = append(entries, e)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && len(entries) == 0 {
		return nil, nil
	}
	return entries, err
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	// A process forked meanwhile would keep the copy open for writing, and it is
	// a program that is to be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return errors.Join(out.Chmod(mode), out.Close())
}
