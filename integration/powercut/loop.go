package powercut

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	loopControl = "/dev/loop-control"
	loopMajor   = 7
)

// attach puts a loop device before the image. The device frees itself when its
// last user is gone, so that none stays behind a process that was killed: keep
// the file open until the file system is mounted.
//
// Each mount gets a device of its own: one that stayed would keep in its cache
// what never reached the image.
func attach(image string, nodes string) (*os.File, error) {
	back, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := openLoop(number, nodes)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{
			Fd:   uint32(back.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) { // somebody else was faster
			return nil, fmt.Errorf("attach %s to a loop device: %w", image, err)
		}
	}
}

// openLoop makes the device's node where /dev has none: a container's seldom has
// more than a few. nodes is a folder for it.
func openLoop(number int, nodes string) (*os.File, error) {
	name := fmt.Sprintf("loop%d", number)
	f, err := os.OpenFile(filepath.Join("/dev", name), os.O_RDWR, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	path := filepath.Join(nodes, name)
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(number)))); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("make a node for %s: %w", name, err)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// attachment is which file is behind which loop device.
type attachment struct {
	device string
	// Of the file.
	dev, inode uint64
}

func attached(device *os.File) (attachment, error) {
	info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
	if err != nil {
		return attachment{}, fmt.Errorf("look at %s: %w", device.Name(), err)
	}
	return attachment{device.Name(), info.Device, info.Inode}, nil
}

var errStillAttached = errors.New("somebody still has a copy of the mount")

// gone says whether the device has let the file go, which it does by itself when
// the file system is no more; by now it may have another.
func (a attachment) gone() error {
	if a.device == "" {
		return nil
	}
	device, err := os.Open(a.device)
	if err != nil {
		return err
	}
	defer device.Close()
	now, err := attached(device)
	if errors.Is(err, unix.ENXIO) || err == nil && now != a {
		return nil
	}
	if err != nil {
		return err
	}
	return errStillAttached
}
