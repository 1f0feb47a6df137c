package transaction

import (
	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
)

const (
	// SystemdRun is there if systemd runs.
	SystemdRun = "/run/systemd/system"

	// roomOfReload is the room in /run without which systemd refuses to read unit files again (RELOAD_DISK_SPACE_MIN in its
	// sources), which a change of version and its undoing both ask for.
	roomOfReload = 16 << 20
	// roomOfChange and filesOfChange are what a change of version needs in /run, in bytes and in files and folders: the unit
	// that it runs in, what is written down of this boot, and a reload. Nothing is changed with less.
	roomOfChange  = roomOfReload + 256<<10
	filesOfChange = 32
)

// CheckRun refuses a change for which there is no room in /run, or no inodes: a file system without any takes no unit. systemd
// is its folder there: without systemd nothing is needed.
func CheckRun(systemd string) error {
	if !host.Exists(systemd) {
		return nil
	}
	free, err := space.At(systemd)
	switch {
	case err != nil: // who cannot tell goes on
	case free.RootBytes < roomOfChange:
		return failure.Unchanged("%w", &space.Error{Path: systemd, Need: roomOfChange, Free: free.RootBytes}).
			To("free some space in /run, then run the command again").Refused()
	case free.CountsFiles && free.Files < filesOfChange:
		return failure.Unchanged("%w", &space.Error{Path: systemd, Need: filesOfChange, Free: free.Files, Inodes: true}).
			To("remove files from /run that nothing needs, or mount it with more inodes (nr_inodes=), then run the command again").Refused()
	}
	return nil
}
