// Package powercut cuts the power of file systems, for tests of what is left. Its
// own tests cut it under the real updater, at every call by which it changes
// something, and look at what the host is after that.
//
// A Disk is an ext4 or xfs file system in an image of its own, behind a loop
// device. Cut stops it where it is, by the file system's own shutdown without a
// flush of its log; Restore attaches and mounts the image again, so that the file
// system recovers its log as it would after the power came back. What was never
// synced is then lost: contents, names, links and modes alike.
//
// What no file system promises is not given either: ext4 is mounted without its
// mercy for renames over unsynced files (auto_da_alloc), and commits by itself
// every five minutes instead of every five seconds.
//
// All of it happens in a mount namespace that only this process has (OwnMounts),
// on a tmpfs (Scratch): when the process dies, however it dies, the kernel
// unmounts the file systems, frees the loop devices and drops the images.
package powercut

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is a kind of file system.
type Kind string

// The file systems that can be cut.
const (
	Ext4 Kind = "ext4"
	XFS  Kind = "xfs"
)

// size is how large an image says it is: the least that mkfs.xfs accepts. It
// takes only what is written to it.
const size = 300 << 20

var kinds = map[Kind]struct {
	make    []string // the command that formats; the image's path follows
	options string   // to mount with
	pkg     string   // of Debian and Ubuntu, that has the command
}{
	Ext4: {
		make:    []string{"mkfs.ext4", "-q", "-F", "-m0", "-N4096", "-Jsize=4", "-Elazy_itable_init=0,lazy_journal_init=0"},
		options: "noauto_da_alloc,commit=300",
		pkg:     "e2fsprogs",
	},
	XFS: {
		make: []string{"mkfs.xfs", "-q", "-f"},
		pkg:  "xfsprogs",
	},
}

// ErrUnavailable is matched by the errors of a machine where nothing can be cut:
// no root, no loop devices, no mkfs.
var ErrUnavailable = errors.New("power cannot be cut here")

// marker names the mount namespace that OwnMounts made for this process.
const marker = "TELEPORT_UPDATE_POWERCUT_MOUNTS"

// OwnMounts gives this process a mount namespace that no other has, by executing
// the program anew in it, with the same arguments. So it belongs at the very
// beginning, into TestMain. In the new namespace it returns nil. An error matches
// ErrUnavailable, and nothing has happened.
//
// A container that starts meanwhile would otherwise copy the mounts it finds, and
// a file system is not gone while it has a copy.
func OwnMounts() error {
	if os.Getenv(marker) == namespace() {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: mounting needs root", ErrUnavailable)
	}
	// The namespace is this thread's; executing makes it the process's.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("%w: a mount namespace: %w", ErrUnavailable, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: private mounts: %w", ErrUnavailable, err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	err = unix.Exec(self, os.Args, append(os.Environ(), marker+"="+namespace()))
	return fmt.Errorf("%w: execute %s anew: %w", ErrUnavailable, self, err)
}

func namespace() string {
	name, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		return "unknown"
	}
	return name
}

// Scratch mounts a tmpfs, the place for images and for what they are mounted on,
// and returns its path. It needs OwnMounts: the path is one that every host has,
// covered for this process only.
func Scratch() (string, error) {
	const dir = "/mnt"
	if os.Getenv(marker) != namespace() {
		return "", errors.New("a scratch file system would be visible to others: call OwnMounts first")
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return "", fmt.Errorf("%w: mount a tmpfs on %s: %w", ErrUnavailable, dir, err)
	}
	return dir, nil
}

// Available says whether file systems of these kinds can be made and cut here.
// The error matches ErrUnavailable; where only programs are missing, it is a
// *MissingError.
func Available(want ...Kind) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: mounting needs root", ErrUnavailable)
	}
	if _, err := os.Stat(loopControl); err != nil {
		return fmt.Errorf("%w: no loop devices: %w", ErrUnavailable, err)
	}
	var missing []string
	for _, k := range want {
		if _, err := exec.LookPath(kinds[k].make[0]); err != nil {
			missing = append(missing, kinds[k].pkg)
		}
	}
	if len(missing) > 0 {
		return &MissingError{missing}
	}
	return nil
}

// MissingError names the distribution's packages that have to be installed.
type MissingError struct{ Packages []string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%v: programs are not installed: apt-get install %s", ErrUnavailable, strings.Join(e.Packages, " "))
}

func (e *MissingError) Unwrap() error { return ErrUnavailable }
