package ospackage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Fence keeps a removal from what is not the package's any more. The removal runs
// in a mount namespace of its own, in which it finds other folders in the places
// of these: it may take away there what it likes. Nothing has to be put back
// afterwards, so nothing is missing if it is cut off.
type Fence struct {
	// Empty are folders that it finds empty and can fill: of links, of units. They
	// themselves cannot be removed.
	Empty []string
	// Gone are folders that it finds empty and can remove as well: scripts that
	// delete the agent's data should think that they did.
	Gone []string
}

// behind calls start, which is to start a process, on a thread that is behind the
// fence. The thread ends with it.
func (f Fence) behind(start func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The process's first thread cannot end, and /proc/self is what that
			// one sees. As long as this is on it, another is on another.
			defer runtime.UnlockOSThread()
			result <- f.behind(start)
			return
		}
		// Never unlocked: no other goroutine may run behind the fence.
		if err := f.build(); err != nil {
			result <- fmt.Errorf("keep the removal of a package from what is not its any more: %w", err)
			return
		}
		result <- start()
	}()
	return <-result
}

func (f Fence) build() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, dir := range f.Gone {
		if err := hide(dir); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	for _, dir := range f.Empty {
		if err := mountEmpty(dir); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	return nil
}

// mountEmpty puts an empty folder over one; one that is not there needs none.
func mountEmpty(dir string) error {
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755")
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// hide puts an empty folder, which is no mount, in the place of dir: over the
// folder above it comes one in which everything else is as it was.
func hide(dir string) error {
	above, name := filepath.Split(filepath.Clean(dir))
	if above = filepath.Clean(above); above == "/" {
		return mountEmpty(dir)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, err := os.ReadDir(above)
	if err != nil {
		return err
	}
	// Opened behind the fence: a mount of another namespace cannot be bound.
	real, err := unix.Open(above, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(real)
	if err := mountEmpty(above); err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(above, e.Name())
		if e.Name() == name {
			err = os.Mkdir(path, 0o755)
		} else {
			err = show(filepath.Join("/proc/thread-self/fd", strconv.Itoa(real), e.Name()), path, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// show makes what is at from visible at path.
func show(from, path string, e fs.DirEntry) error {
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, path)
	case e.IsDir():
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	default:
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		f.Close()
	}
	return unix.Mount(from, path, "", unix.MS_BIND|unix.MS_REC, "")
}
