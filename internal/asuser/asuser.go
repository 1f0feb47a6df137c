// Package asuser says whether a user of this host may read, write or execute a file, for a process of root.
//
// Modes come first: they are read with no right but root's own, and rights that they give count as given. A right that they do not give
// may come from an ACL or a file server: then a child process asks the kernel in the user's name. The process
// itself never takes another user's rights, which may be its end under a hardened unit. If the child was not started or was killed, the
// question has no answer: that is an error, and the file does not count as closed. A file system that does not answer delays
// a caller no longer than the context allows.
package asuser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Right is a right of a user to a file, or the sum of several, as in one digit of a mode.
type Right uint32

// The rights. Execute is also the right to go through a folder.
const (
	Execute Right = 1
	Write   Right = 2
	Read    Right = 4
)

// A Barrier is a folder or a file that denies a user a right.
type Barrier struct {
	Path     string // without links
	Mode     fs.FileMode
	UID, GID uint32
	Class    string // the digit of the mode that counts for the user, as in chmod(1): "u", "g" or "o"
	Lacks    Right  // the right that the user lacks
	// Misled: the way led through a link that another user than root can make, or the file has several names. The
	// file there may be anybody's, and must not be opened because of that link.
	Misled bool
}

// Barred returns the barrier to a right to the file at an absolute path: a folder or a link's target on the way, or the file itself; nil
// if there is no barrier. The error means that the answer is not known. It is fs.ErrNotExist if there is no such file.
func (a Account) Barred(ctx context.Context, path string, to Right) (*Barrier, error) {
	type answer struct {
		barrier *Barrier
		err     error
	}
	done := make(chan answer, 1)
	go func() {
		b, err := a.barred(ctx, path, to)
		done <- answer{b, err}
	}()
	select {
	case is := <-done:
		return is.barrier, is.err
	case <-ctx.Done(): // nobody can stop the look
		return nil, fmt.Errorf("see whether user %s may use %s: %w", a.Name, path, context.Cause(ctx))
	}
}

// maxLinks is the largest number of links on one way, as in the kernel.
const maxLinks = 40

// barred follows the way to the file, folder by folder, as the kernel does.
func (a Account) barred(ctx context.Context, path string, to Right) (*Barrier, error) {
	w := way{at: "/", rest: names(path)}
	for {
		info, err := os.Lstat(w.at)
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if err := w.follow(); err != nil {
				return nil, err
			}
			continue
		}
		last, wants := len(w.rest) == 0, to
		if !last {
			wants = Execute
		}
		if !last && !info.IsDir() {
			return nil, &fs.PathError{Op: "open", Path: filepath.Join(w.at, w.rest[0]), Err: syscall.ENOTDIR}
		}
		b, err := a.keeps(ctx, w.at, info, wants)
		if b != nil {
			b.Misled = b.Misled || w.misled
		}
		if b != nil || err != nil || last {
			return b, err
		}
		w.at, w.rest = filepath.Join(w.at, w.rest[0]), w.rest[1:] // ".." of a folder without links is its parent
	}
}

// way is the way to a file, up to a path without links.
type way struct {
	at     string
	rest   []string // names that follow
	links  int
	misled bool
}

// follow follows the link at the end of the way.
func (w *way) follow() error {
	target, err := os.Readlink(w.at)
	if err != nil {
		return err
	}
	if w.links++; w.links > maxLinks {
		return &fs.PathError{Op: "follow", Path: w.at, Err: syscall.ELOOP}
	}
	w.misled = w.misled || !isRoots(w.at)
	w.rest = append(names(target), w.rest...)
	if w.at = filepath.Dir(w.at); filepath.IsAbs(target) {
		w.at = "/"
	}
	return nil
}

// isRoots reports whether a link and the folder that it is in belong to root.
func isRoots(link string) bool {
	for _, path := range []string{link, filepath.Dir(link)} {
		info, err := os.Lstat(path)
		if err != nil {
			return false
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 {
			return false
		}
	}
	return true
}

func names(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}

// keeps returns the barrier at one folder or file; nil if it gives the right.
func (a Account) keeps(ctx context.Context, path string, info fs.FileInfo, wants Right) (*Barrier, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	allowed, _ := a.byMode(st)
	if wants&^allowed == 0 {
		return nil, nil
	}
	all, err := a.withGroups(ctx)
	if err != nil {
		return nil, err
	}
	allowed, class := all.byMode(st)
	lacks := wants &^ allowed
	for _, right := range []Right{Execute, Read, Write} {
		if lacks&right == 0 {
			continue
		}
		may, err := all.ask(ctx, path, right)
		if err != nil {
			return nil, err
		}
		if !may {
			return &Barrier{Path: path, Mode: info.Mode(), UID: st.Uid, GID: st.Gid, Class: class, Lacks: right,
				Misled: !info.IsDir() && st.Nlink > 1}, nil
		}
	}
	return nil, nil
}

// byMode returns the rights that the mode of a file gives, and the class whose digit counts.
func (a Account) byMode(st *syscall.Stat_t) (allowed Right, class string) {
	const all = Read | Write | Execute
	mode := Right(st.Mode)
	switch {
	case st.Uid == a.UID:
		return mode >> 6 & all, "u"
	case st.Gid == a.GID, slices.Contains(a.Groups, st.Gid):
		return mode >> 3 & all, "g"
	}
	return mode & all, "o"
}

// tests maps rights to options of test(1).
var tests = map[Right]string{Execute: "-x", Write: "-w", Read: "-r"}

// ask asks the kernel in the user's name.
func (a Account) ask(ctx context.Context, path string, right Right) (may bool, err error) {
	cmd := exec.CommandContext(ctx, cmp.Or(a.shell, "/bin/sh"), "-c", `test "$1" "$2" && exit 0; exit 1`, "sh", tests[right], path)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.Groups}}
	err = cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == 1 {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask as user %s for %s: %w", a.Name, path, err)
	}
	return true, nil
}
