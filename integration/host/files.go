package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Paths in a host are absolute and mean what they mean to its processes: links
// lead to where they lead inside, /run and /tmp are the running host's. On a
// host that is off they are those of the disk.

// ReadFile returns the content of a file.
func (h *Host) ReadFile(name string) ([]byte, error) {
	f, err := h.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// WriteFile puts a file in place in one step, with that mode whatever the umask,
// and makes the folders above it that are missing.
func (h *Host) WriteFile(name string, data []byte, mode fs.FileMode) error {
	return h.write(name, strings.NewReader(string(data)), mode)
}

// CopyIn puts a copy of an outside file in place, as WriteFile does.
func (h *Host) CopyIn(from, to string, mode fs.FileMode) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return h.write(to, f, mode)
}

func (h *Host) write(name string, data io.Reader, mode fs.FileMode) (err error) {
	dir, err := h.makeDir(path.Dir(name))
	if err != nil {
		return fmt.Errorf("write %s in %s: %w", name, h.Name, err)
	}
	defer dir.Close()
	// A process that is forked while the file is open for writing keeps it open
	// until it executes something itself: nobody could execute the file meanwhile.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	temp := ".host-test-" + path.Base(name)
	fd, err := unix.Openat(int(dir.Fd()), temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("write %s in %s: %w", name, h.Name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() {
		if err != nil {
			f.Close()
			unix.Unlinkat(int(dir.Fd()), temp, 0)
			err = fmt.Errorf("write %s in %s: %w", name, h.Name, err)
		}
	}()
	if _, err := io.Copy(f, data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return unix.Renameat(int(dir.Fd()), temp, int(dir.Fd()), path.Base(name))
}

// MkdirAll makes a folder and those above it, mode 0755.
func (h *Host) MkdirAll(name string) error {
	dir, err := h.makeDir(name)
	if err != nil {
		return fmt.Errorf("make %s in %s: %w", name, h.Name, err)
	}
	return dir.Close()
}

// makeDir opens a folder, after it has made it.
func (h *Host) makeDir(name string) (*os.File, error) {
	dir, err := h.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if !errors.Is(err, fs.ErrNotExist) || name == "/" {
		return dir, err
	}
	above, err := h.makeDir(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	if err := unix.Mkdirat(int(above.Fd()), path.Base(name), 0o755); err != nil && err != unix.EEXIST {
		return nil, err
	}
	return h.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// Readlink returns what a link says.
func (h *Host) Readlink(name string) (string, error) {
	dir, err := h.open(path.Dir(name), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), path.Base(name)))
}

// Exists reports whether there is anything of that name; a link that leads
// nowhere counts.
func (h *Host) Exists(name string) bool {
	_, err := h.Lstat(name)
	return err == nil
}

// Lstat describes a file, not what a link leads to.
func (h *Host) Lstat(name string) (fs.FileInfo, error) {
	f, err := h.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// Remove removes a file, or a folder and all it holds. None is fine.
func (h *Host) Remove(name string) error {
	dir, err := h.open(path.Dir(name), unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return os.RemoveAll(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), path.Base(name)))
}

// Names lists a folder, sorted.
func (h *Host) Names(name string) ([]string, error) {
	dir, err := h.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return sorted(names), nil
}

// open opens a path inside the host, and follows links inside it.
func (h *Host) open(name string, flags int) (*os.File, error) {
	if !path.IsAbs(name) {
		return nil, fmt.Errorf("path %q in a host is not absolute", name)
	}
	root := h.Dir + "/root"
	if m, err := h.machine(); err == nil {
		root = "/proc/" + strconv.Itoa(m.leader) + "/root"
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: h.Name + ":" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
