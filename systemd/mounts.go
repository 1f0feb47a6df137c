package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/internal/durable"
)

// mountsFile is a drop-in of the recovery at boot. It exists only while a transaction is open: a
// boot without one waits for no disk.
func (u Units) mountsFile() string {
	return filepath.Join(u.withDefaults().UnitDir, u.Recovery()+".d", "50-agent-data.conf")
}

// AwaitMounts orders the recovery at boot after all mounts on the way to files. It requests no
// mount, and a mount that fails delays the recovery only for a time. systemd reads the drop-in at
// the next boot.
func (u Units) AwaitMounts(files ...string) error {
	path := u.mountsFile()
	content := []byte(mark + "\n[Unit]\nAfter=" + strings.Join(mountUnits(files), " ") + "\n")
	err := durable.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = durable.WriteFile(path, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("order the recovery at boot after the agent's data: %w", err)
	}
	return nil
}

// ForgetMounts removes the file of AwaitMounts.
func (u Units) ForgetMounts() error {
	path := u.mountsFile()
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := durable.Remove(path); err != nil {
		return fmt.Errorf("forget the mounts of a transaction that is over: %w", err)
	}
	// An administrator may have drop-ins of their own there.
	_ = durable.UnlinkNoSync(filepath.Dir(path))
	return nil
}

// mountUnits names the unit of each folder above the files that may be a mount.
func mountUnits(files []string) []string {
	var units []string
	for _, file := range files {
		for dir := filepath.Dir(file); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			units = append(units, MountUnit(dir))
		}
	}
	slices.Sort(units)
	return slices.Compact(units)
}
