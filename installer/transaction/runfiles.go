package transaction

import (
	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
)

// filesOfChange is how many files and folders a change of version needs in /run: those of the unit that it runs in, what is
// written down of this boot, and some for systemd. Nothing is changed with fewer.
const filesOfChange = 32

// CheckRunFiles is CheckRun for the inodes of /run: a file system without any has room, and takes no unit.
func CheckRunFiles(systemd string) error {
	if !host.Exists(systemd) {
		return nil
	}
	free, err := space.At(systemd)
	if err != nil || !free.CountsFiles || free.Files >= filesOfChange {
		return nil // who cannot tell goes on
	}
	return failure.Unchanged("%w", &space.Error{Path: systemd, Need: filesOfChange, Free: free.Files, Inodes: true}).
		To("remove files from /run that nothing needs, or mount it with more inodes (nr_inodes=), then run the command again").Refused()
}
