package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A disk is an ext4 file system in a file. It is mounted in a mount namespace of
// its own, by what becomes nspawn there: no container that starts meanwhile
// copies the mount and keeps it, and it goes away with the host, together with
// its loop device, even if this process is killed.

const (
	diskSize = "2G" // of holes mostly
	diskName = "disk"
	// mountDisk shows no mercy for renames over what was not synced, and commits
	// only what is asked for. It also gives the host its machine id, the same at
	// each boot.
	mountDisk = `mount -o loop,noauto_da_alloc,commit=300 "$1/` + diskName + `" "$1/root" && cp "$1/machine-id" "$1/root/etc/machine-id" && shift && exec "$@"`
)

// makeDisk makes the file of a new host's disk from one that is made once for
// each root.
func makeDisk(ctx context.Context, base, dir string, id []byte) error {
	if err := os.Mkdir(filepath.Join(dir, "root"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "machine-id"), id, 0o444); err != nil {
		return err
	}
	image, err := diskOf(ctx, base)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", image, filepath.Join(dir, diskName)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy the disk: %w\n%s", err, out)
	}
	return nil
}

// diskOf returns the file system that holds the same as a root, and makes it if
// it is not there.
func diskOf(ctx context.Context, base string) (string, error) {
	image := base + ".ext4"
	unlock, err := lock(filepath.Join(filepath.Dir(base), ".lock"), unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(image); !errors.Is(err, fs.ErrNotExist) {
		return image, err
	}
	temp := filepath.Join(filepath.Dir(base), ".making-disk")
	defer os.Remove(temp)
	if err := os.RemoveAll(temp); err != nil {
		return "", err
	}
	// No pages of the file system are left to be written later by the kernel.
	out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d", base, temp, diskSize).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make a disk: %w\n%s", err, out)
	}
	return image, os.Rename(temp, image)
}

// onDisk is a command that runs with the host's disk mounted.
func onDisk(dir string, args []string) []string {
	return append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", mountDisk, "sh", dir}, args...)
}

// StopDisk stops the host's disk where it is, as a power cut does: what was not
// synced is lost, and everything fails that wants to write or to sync.
func (h *Host) StopDisk() error {
	if !h.disk {
		return fmt.Errorf("%s has no disk of its own", h.Name)
	}
	m, err := h.machine()
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/" + strconv.Itoa(m.leader) + "/root")
	if err != nil {
		return err
	}
	defer f.Close()
	const shutdown, noLogFlush = 0x8004587d, 2
	how := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("stop the disk of %s: %w", h.Name, errno)
	}
	return nil
}

// CutPower is StopDisk, and then the end of all processes. Boot starts the host
// again, with what is on the disk.
func (h *Host) CutPower(ctx context.Context) error {
	if err := h.StopDisk(); err != nil {
		return err
	}
	if err := h.Kill(); err != nil {
		return err
	}
	return h.awaitUnmounted(ctx)
}

// awaitUnmounted waits until the kernel has let go of the disk: two mounts of it
// at once would ruin it.
func (h *Host) awaitUnmounted(ctx context.Context) error {
	image, err := filepath.EvalSymlinks(filepath.Join(h.Dir, diskName))
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(Patience); ; time.Sleep(5 * time.Millisecond) {
		loop, err := loopOf(image)
		if err != nil || loop == "" {
			return err
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("the disk of %s is still mounted from %s", h.Name, loop)
		}
	}
}

// loopOf returns the loop device of a file, "" if it has none.
func loopOf(image string) (string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err == nil && strings.TrimSpace(string(data)) == image {
			return strings.Split(name, "/")[3], nil
		}
	}
	return "", err
}
