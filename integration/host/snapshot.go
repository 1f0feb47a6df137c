package host

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Snapshot is a file tree, path by path: what kind of file it is, its mode and
// owner, and what it holds or leads to. Times do not count.
type Snapshot map[string]string

// Snapshot takes these paths and all below them. A path that is not there is not
// in it.
func (h *Host) Snapshot(paths ...string) (Snapshot, error) {
	s := Snapshot{}
	for _, p := range paths {
		dir, err := h.open(path.Dir(p), unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		err = s.walk(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), path.Base(p)), p)
		dir.Close()
		if err != nil {
			return nil, fmt.Errorf("snapshot of %s in %s: %w", p, h.Name, err)
		}
	}
	return s, nil
}

func (s Snapshot) walk(from, name string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			var below, what string
			if below, err = filepath.Rel(from, p); err != nil {
				return err
			}
			if what, err = describe(p); err == nil {
				s[path.Join(name, below)] = what
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is not there, or it went away meanwhile
		}
		return err
	})
}

func describe(p string) (string, error) {
	info, err := os.Lstat(p)
	if err != nil {
		return "", err
	}
	owner := info.Sys().(*syscall.Stat_t)
	what := fmt.Sprintf("%v %d:%d", info.Mode(), owner.Uid, owner.Gid)
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		target, err := os.Readlink(p)
		return what + " -> " + target, err
	case 0:
		f, err := os.Open(p)
		if err != nil {
			return "", err
		}
		defer f.Close()
		sum := sha256.New()
		n, err := io.Copy(sum, f)
		return fmt.Sprintf("%s %d bytes %x", what, n, sum.Sum(nil)), err
	}
	return what, nil
}

// Diff says what became of s in after, a line a path, sorted; nothing if they
// are the same.
func (s Snapshot) Diff(after Snapshot) []string {
	var lines []string
	for p, what := range s {
		if now, ok := after[p]; !ok {
			lines = append(lines, p+": removed")
		} else if now != what {
			lines = append(lines, fmt.Sprintf("%s: changed from %s to %s", p, what, now))
		}
	}
	for p, what := range after {
		if _, ok := s[p]; !ok {
			lines = append(lines, p+": added: "+what)
		}
	}
	return sorted(lines)
}

// Without returns s without these paths and what is below them.
func (s Snapshot) Without(paths ...string) Snapshot {
	rest := maps.Clone(s)
	maps.DeleteFunc(rest, func(p, _ string) bool {
		return slices.ContainsFunc(paths, func(skip string) bool {
			return p == skip || len(p) > len(skip) && p[:len(skip)+1] == skip+"/"
		})
	})
	return rest
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
