//go:build hosts

package hostile

import (
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// tree is a file tree, path by path: kind, mode, owner, names, content. Times do
// not count.
type tree map[string]string

// seed makes the hashes of one process comparable.
var seed = maphash.MakeSeed()

func snapshot(roots ...string) tree {
	t := tree{}
	for _, root := range roots {
		// What cannot be looked at is part of the picture.
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				t[path] = err.Error()
				return nil
			}
			t[path] = describe(path)
			return nil
		})
	}
	return t
}

func describe(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return err.Error()
	}
	st := info.Sys().(*syscall.Stat_t)
	what := fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		target, _ := os.Readlink(path)
		return what + " -> " + target
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return fmt.Sprintf("%s %#x", what, st.Rdev)
	case 0:
		if info.Size() > 1<<20 { // the updater's own copy, or sparse, made for a case
			return fmt.Sprintf("%s %d bytes, inode %d of %v", what, info.Size(), st.Ino, info.ModTime())
		}
		f, err := os.Open(path)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		var sum maphash.Hash
		sum.SetSeed(seed)
		n, _ := io.Copy(&sum, f)
		return fmt.Sprintf("%s %d bytes %x", what, n, sum.Sum64())
	}
	return what
}

// diff says what became of t, a line a path.
func (t tree) diff(after tree) []string {
	var lines []string
	for path, was := range t {
		if is, ok := after[path]; !ok {
			lines = append(lines, path+": removed")
		} else if is != was {
			lines = append(lines, fmt.Sprintf("%s: changed from %s to %s", path, was, is))
		}
	}
	for path, is := range after {
		if _, ok := t[path]; !ok {
			lines = append(lines, path+": added: "+is)
		}
	}
	slices.Sort(lines)
	return lines
}

// without leaves out paths and what is below them.
func (t tree) without(paths ...string) tree {
	rest := tree{}
	for path, what := range t {
		if !slices.ContainsFunc(paths, func(skip string) bool { return path == skip || strings.HasPrefix(path, skip+"/") }) {
			rest[path] = what
		}
	}
	return rest
}
