// Package trust decides what root may execute, and in which folders root may keep the files
// on which that depends.
//
// A program is as trustworthy as everybody who could exchange it: every owner and
// writer, by mode or by ACL, of the file, of a folder on the way to it, or of a link
// on the way. If root asks, all of them must be root alone. Other
// users have nothing to gain: the programs that they run, they run as themselves.
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

// maxLinks is the largest number of links on one way, as in the kernel.
const maxLinks = 40

// Executable returns an error unless the file at path, an absolute path, is a regular file that
// nobody but root can change or exchange. It is nil for any file if the process does not run as
// root.
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

// Path returns an error unless nobody but root can change or exchange the file or folder at path,
// an absolute path; if it is missing, the existing part of the way counts. In the folder that the
// path ends at, nobody but root may make a name: a sticky folder is allowed only on the way. It is
// nil if the process does not run as root.
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

// Blind reports whether an error of Path means that the way could not be looked at, so that nobody knows who can change
// the file: a disk that fails, a stale mount, a security module.
func Blind(err error) bool {
	_, blind := errors.AsType[*fs.PathError](err)
	return blind
}

// errMissing: the way ends at a folder that lacks the next name.
var errMissing = errors.New("it is not there")

// walk checks the way to path and all ways of its links. It returns the end of the way, by a path
// without links: with errMissing that is the last existing folder.
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

// through returns the folder from which a link's target starts, and the names from there on. The
// folder of the link was checked on the way to it, or is next.
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

// onlyRoot returns an error if anybody but root could change a file of root's, or exchange files
// in a folder of root's. In a sticky folder (as /tmp) nobody can exchange the file of another
// user.
func onlyRoot(path string, info fs.FileInfo) error {
	if info.IsDir() && info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	return onlyRootWrites(path, info)
}

// rootsFolder returns an error if anybody but root could make a name in a folder of root's, or
// could write root's new files there.
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
