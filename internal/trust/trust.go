// Package trust decides what root may execute, and where it may keep what decides
// that.
//
// A program is as trustworthy as everybody who could exchange it: whoever owns
// or may write the file, a folder on the way to it, or a link that the way
// leads through. When root asks, all of them must be root alone. For any other
// user there is nothing to gain: what they run, they run as themselves.
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links one way may lead through, as in the kernel.
const maxLinks = 40

// Executable returns an error unless the file at path, an absolute path, is a
// regular file that nobody but root can change or exchange. It is nil for any
// file when the process does not run as root.
func Executable(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := walk(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return fmt.Errorf("%s is not run as root: %w", path, err)
	}
	return nil
}

// Path returns an error unless nobody but root can change or exchange what is at
// path, an absolute path to a file or a folder; of a path that is not there yet,
// as much as there is. In a folder, nobody but root may make a name: a sticky
// folder will do on the way only. It is nil when the process does not run as
// root.
func Path(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := walk(path)
	if errors.Is(err, fs.ErrNotExist) {
		for errors.Is(err, fs.ErrNotExist) && path != "/" {
			path = filepath.Dir(path)
			_, err = walk(path)
		}
		return err
	}
	if err == nil && info.IsDir() && info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o002 != 0 {
		err = fmt.Errorf("%s can be written by everybody", path)
	}
	return err
}

// walk checks the way to path and everything its links lead through, and returns
// what it ends at.
func walk(path string) (fs.FileInfo, error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("its path is not absolute")
	}
	rest, at, links := split(path), "/", 0
	info, err := os.Lstat(at)
	for err == nil {
		if !Ours(info) { // only root asks
			return nil, fmt.Errorf("%s belongs to another user", at)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return nil, errors.New("too many links on the way")
			}
			target, err := os.Readlink(at)
			if err != nil {
				return nil, err
			}
			at = filepath.Dir(at)
			if filepath.IsAbs(target) {
				at = "/"
			}
			rest = append(split(target), rest...)
		} else if err := onlyRoot(at, info); err != nil {
			return nil, err
		}
		if len(rest) == 0 {
			break
		}
		// At this point no link is left in at, so that ".." means the parent.
		at, rest = filepath.Join(at, rest[0]), rest[1:]
		info, err = os.Lstat(at)
	}
	return info, err
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// onlyRoot says whether anybody but root could change a file of root's, or exchange
// what is in a folder of root's. In a sticky folder (as /tmp) nobody can exchange what
// belongs to another.
func onlyRoot(path string, info fs.FileInfo) error {
	mode := info.Mode()
	if info.IsDir() && mode&fs.ModeSticky != 0 {
		return nil
	}
	if mode.Perm()&0o002 != 0 {
		return fmt.Errorf("%s can be written by everybody", path)
	}
	if st := info.Sys().(*syscall.Stat_t); mode.Perm()&0o020 != 0 && st.Gid != 0 {
		return fmt.Errorf("%s can be written by its group", path)
	}
	return nil
}
