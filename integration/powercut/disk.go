package powercut

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is a mounted file system whose power can be cut.
type Disk struct {
	Kind  Kind
	Image string // the file that holds it
	Dir   string // where it is mounted

	loop attachment
}

// Mount mounts an image on a folder.
func Mount(image string, kind Kind, dir string) (*Disk, error) {
	d := &Disk{Kind: kind, Image: image, Dir: dir}
	return d, d.Mount()
}

// Mount mounts the image that is at d.Image now.
func (d *Disk) Mount() error {
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return err
	}
	device, err := attach(d.Image, filepath.Dir(d.Dir))
	if err != nil {
		return err
	}
	defer device.Close()
	if d.loop, err = attached(device); err != nil {
		return err
	}
	if err := unix.Mount(device.Name(), d.Dir, string(d.Kind), 0, kinds[d.Kind].options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", d.Image, d.Dir, err)
	}
	return nil
}

// Cut ends the file system where it is: nothing that is not in the image by now
// gets there any more, and every call fails with EIO. Both ext4 and xfs have this
// ioctl (xfs calls it XFS_IOC_GOINGDOWN).
func (d *Disk) Cut() error {
	const shutdown, withoutLogFlush = 0x8004587d, 2
	f, err := os.Open(d.Dir)
	if err != nil {
		return fmt.Errorf("cut the power of %s: %w", d.Dir, err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, withoutLogFlush); err != nil {
		return fmt.Errorf("cut the power of %s: %w", d.Dir, err)
	}
	return nil
}

// Sync puts all that was written into the image.
func (d *Disk) Sync() error {
	f, err := os.Open(d.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", d.Dir, err)
	}
	return nil
}

// Restore is the power coming back after a Cut: the file system is mounted anew, now
// and then under another device number, and recovers its log. Whoever used it must be
// gone.
func (d *Disk) Restore() error {
	if err := d.Unmount(); err != nil {
		return err
	}
	// Takes the number that has just become free.
	other, err := attach(d.Image, filepath.Dir(d.Dir))
	if err != nil {
		return err
	}
	defer other.Close()
	return d.Mount()
}

// Unmount takes the file system away. The image holds all that was written then,
// unless it was cut.
func (d *Disk) Unmount() error {
	// What a killed process had open is closed a little after its death was
	// reported.
	err := retry(func() error { return unix.Unmount(d.Dir, 0) }, unix.EBUSY)
	if err != nil {
		return fmt.Errorf("unmount %s: %w", d.Dir, err)
	}
	// So are its copies of the mount, if it had a namespace of its own; and until
	// they are, the file system may still write to the image.
	if err := retry(d.loop.gone, errStillAttached); err != nil {
		return fmt.Errorf("unmount %s: %w", d.Dir, err)
	}
	return nil
}

// retry repeats what fails with an error that goes away by itself, for a minute:
// a busy machine may take seconds to end a process.
func retry(f func() error, passing error) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if err := f(); !errors.Is(err, passing) || time.Now().After(deadline) {
			return err
		}
	}
}
