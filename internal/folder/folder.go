// Package folder holds a folder open that belongs to somebody else, so that root
// can work in it while its owner renames it, or puts a link in its place.
//
// The way to the folder is walked once. A link on it is followed only if root
// made it: root owns the link, and nobody else can make names in the link's folder. From
// then on everything is done through the open folder, by names of one element (see
// At), so that no later change of the way leads anywhere else.
package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxLinks is the largest number of links on one way, as in the kernel.
	maxLinks = 40

	// handles is the folder in which the kernel lists a process's open files.
	handles = "/proc/self/fd/"
)

// A Folder is a folder that is held open.
type Folder struct {
	dir  *os.File
	path string
}

// Open opens the folder at path. If there is no such folder, the error matches fs.ErrNotExist.
func Open(path string) (*Folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	w := walk{at: -1}
	defer w.close()
	if err := w.enter(unix.AT_FDCWD, "/"); err != nil {
		return nil, err
	}
	if err := w.along(path); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(w.at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: w.path, Err: err}
	}
	return &Folder{dir: os.NewFile(uintptr(fd), w.path), path: w.path}, nil
}

// Close closes the folder. Paths from At must not be used any more.
func (f *Folder) Close() error { return f.dir.Close() }

// Path returns the path of the folder when it was opened, without links: for people.
func (f *Folder) Path() string { return f.path }

// At returns a path to a name in this folder, even if the folder was moved. It is for this process
// alone, as long as the folder is open.
func (f *Folder) At(name string) string {
	return handles + strconv.Itoa(int(f.dir.Fd())) + "/" + name
}

// Owner returns the user and the group that the folder belongs to.
func (f *Folder) Owner() (uid, gid int, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.dir.Fd()), &st); err != nil {
		return 0, 0, &os.PathError{Op: "stat", Path: f.path, Err: err}
	}
	return int(st.Uid), int(st.Gid), nil
}

// Removed reports whether the folder was removed since it was opened: on any file system, the kernel no longer lists a
// removed folder, but lists a renamed one.
func (f *Folder) Removed() bool {
	fd, err := unix.Openat(int(f.dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Getdents(fd, make([]byte, 4096))
	return errors.Is(err, unix.ENOENT)
}

// IsAt reports whether a path comes from At: one element in an open folder.
func IsAt(path string) bool {
	rest, ok := strings.CutPrefix(path, handles)
	number, name, found := strings.Cut(rest, "/")
	oneName := name != "" && name != "." && name != ".." && !strings.ContainsRune(name, '/')
	if !ok || !found || !oneName {
		return false
	}
	n, err := strconv.Atoi(number)
	return err == nil && n >= 0 && strconv.Itoa(n) == number
}

// Explain replaces At's path in a text by the folder's path, for people.
func (f *Folder) Explain(text string) string {
	return strings.ReplaceAll(text, strings.TrimSuffix(f.At(""), "/"), f.path)
}

// walk is the way to a folder, as far as it was followed.
type walk struct {
	at    int // the folder that was reached, opened
	path  string
	links int
}

func (w *walk) close() {
	if w.at >= 0 {
		unix.Close(w.at)
	}
}

// enter continues to a folder, which must not be a link. O_DIRECTORY makes the kernel mount file
// systems that are mounted on demand.
func (w *walk) enter(at int, name string) error {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.close()
	w.at, w.path = fd, filepath.Join("/", w.path, name)
	if name == "/" {
		w.path = "/"
	}
	return nil
}

// along follows a path.
func (w *walk) along(path string) error {
	for rest := split(path); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		err := w.enter(w.at, name)
		if err == unix.ENOTDIR {
			var target string
			if target, err = w.link(name); err == nil {
				rest = append(split(target), rest...)
				if filepath.IsAbs(target) {
					err = w.enter(unix.AT_FDCWD, "/")
				}
			}
		}
		if errno, ok := err.(unix.Errno); ok {
			return &os.PathError{Op: "open", Path: filepath.Join(w.path, name), Err: errno}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// link returns the target of a link, if it may be followed. It checks and reads one open file, so
// that nobody can exchange it in between.
func (w *walk) link(name string) (target string, err error) {
	fd, err := unix.Openat(w.at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var link, parent unix.Stat_t
	if err := unix.Fstat(fd, &link); err != nil {
		return "", err
	}
	if link.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", unix.ENOTDIR
	}
	if err := unix.Fstat(w.at, &parent); err != nil {
		return "", err
	}
	if w.links++; w.links > maxLinks {
		return "", unix.ELOOP
	}
	if !rootMade(link, parent) {
		return "", fmt.Errorf("%s is a symbolic link that somebody other than root could have made (it belongs to user %d, its "+
			"folder to user %d); it is not followed",
			filepath.Join(w.path, name), link.Uid, parent.Uid)
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// rootMade reports whether nobody but root could have made a link in a folder. If the process is
// not root's, it has no more rights than the link's author.
func rootMade(link, parent unix.Stat_t) bool {
	if os.Geteuid() != 0 {
		return true
	}
	shared := parent.Mode&0o022 != 0 && parent.Mode&unix.S_ISVTX == 0
	return link.Uid == 0 && parent.Uid == 0 && !shared
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
