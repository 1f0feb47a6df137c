// Package trust decides what root may execute, and where it may keep what decides
// that.
//
// A program is as trustworthy as everybody who could exchange it: whoever owns
// or may write, by mode or by ACL, the file, a folder on the way to it, or a link that
// the way leads through. When root asks, all of them must be root alone. For any other
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
	_, info, err := walk(path)
	if err == errMissing {
		err = syscall.ENOENT
	}
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
// as much as there is. In the folder that the path ends at, nobody but root may make a
// name: a sticky folder will do on the way only. It is nil when the process does not
// run as root.
func Path(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	at, info, err := walk(path)
	if err != nil && err != errMissing {
		return err
	}
	if info.IsDir() {
		return rootsFolder(at, info)
	}
	return nil
}

// Blind reports whether an error of Path says that the way could not be looked at, so that it is not known who can change
// what is there: a disk that fails, a stale mount, a security module.
func Blind(err error) bool {
	_, blind := errors.AsType[*fs.PathError](err)
	return blind
}

// errMissing: the way ends at a folder which has not got the next name.
var errMissing = errors.New("it is not there")

// walk checks the way to path and everything its links lead through. It returns what the
// way ends at, by a path without links: with errMissing that is the last folder on it.
func walk(path string) (string, fs.FileInfo, error) {
	if !filepath.IsAbs(path) {
		return "", nil, errors.New("its path is not absolute")
	}
	rest, at, links := split(path), "/", 0
	info, err := os.Lstat(at)
	if err != nil {
		return "", nil, err
	}
	for {
		if !Ours(info) { // only root asks
			return "", nil, fmt.Errorf("%s belongs to another user", at)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return "", nil, errors.New("too many links on the way")
			}
			if at, rest, err = through(at, rest); err != nil {
				return "", nil, err
			}
			if info, err = os.Lstat(at); err != nil {
				return "", nil, err
			}
		}
		if err := onlyRoot(at, info); err != nil {
			return "", nil, err
		}
		if len(rest) == 0 {
			return at, info, nil
		}
		// At this point no link is left in at, so that ".." means the parent.
		next := filepath.Join(at, rest[0])
		below, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return at, info, errMissing
		}
		if err != nil {
			return "", nil, err
		}
		at, info, rest = next, below, rest[1:]
	}
}

// through is where a link leads from, and the names from there on. The folder of the link
// was checked on the way to it, or is next.
func through(link string, rest []string) (string, []string, error) {
	target, err := os.Readlink(link)
	if err != nil {
		return "", nil, err
	}
	from := filepath.Dir(link)
	if filepath.IsAbs(target) {
		from = "/"
	}
	return from, append(split(target), rest...), nil
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// onlyRoot says whether anybody but root could change a file of root's, or exchange
// what is in a folder of root's. In a sticky folder (as /tmp) nobody can exchange what
// belongs to another.
func onlyRoot(path string, info fs.FileInfo) error {
	if info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	return onlyRootWrites(path, info)
}

// rootsFolder says whether anybody but root could make a name in a folder of root's, or
// could write what root makes there.
func rootsFolder(path string, info fs.FileInfo) error {
	if err := onlyRootWrites(path, info); err != nil {
		return err
	}
	writer, err := writerByACL(path, aclDefault)
	if err == nil && writer != "" {
		err = fmt.Errorf("what is made in %s can be written by %s, by its default ACL", path, writer)
	}
	return err
}

func onlyRootWrites(path string, info fs.FileInfo) error {
	mode := info.Mode().Perm()
	if mode&0o002 != 0 {
		return fmt.Errorf("%s can be written by everybody", path)
	}
	if mode&0o020 == 0 {
		return nil // nor by an ACL
	}
	writer, err := writerByACL(path, aclAccess)
	if err != nil {
		return err
	}
	if writer != "" {
		return fmt.Errorf("%s can be written by %s, by its ACL", path, writer)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Gid != 0 {
		return fmt.Errorf("%s can be written by its group", path)
	}
	return nil
}
