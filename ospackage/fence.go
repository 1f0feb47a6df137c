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

// Fence protects folders that no longer belong to a package from its removal. The removal runs in a mount namespace of its own, in which it
// finds other folders in these places, and may remove everything there. Nothing has to be restored afterwards, so nothing is missing if the
// removal is cut off.
type Fence struct {
	// Empty are folders that the removal finds empty and can fill, of links or of units. It cannot remove the folders themselves.
	Empty []string
	// Gone are folders that the removal finds empty and can remove as well: scripts that delete the agent's data should think that they did.
	Gone []string
}

// behind calls start, which has to start a process, on a thread behind the fence. The thread ends with it.
func (f Fence) behind(start func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The process's first thread cannot end, and /proc/self shows its view. While this goroutine is on the first thread, the other goroutine
			// is on another one.
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

// mountEmpty mounts an empty folder over a folder, if that exists.
func mountEmpty(dir string) error {
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755")
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// hide replaces dir by an empty folder that is no mount: it mounts over the folder above another one, with all other entries unchanged.
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

// show makes the entry at from visible at path.
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
