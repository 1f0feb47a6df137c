// Package selinux gives files the labels that the host's policy has for their
// paths.
//
// A new file gets its label from its folder. Programs below
// /var/lib would get one that systemd may not execute; the policy module of the
// package has the right label, and somebody has to apply it to every
// new version.
package selinux

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// restoreLimit is far more than a few files need.
const restoreLimit = time.Minute

// Labels holds the paths of SELinux on this host.
type Labels struct {
	// FileSystem is the mount of the kernel's SELinux file system.
	FileSystem string
	// Programs are the paths of restorecon(8): the first existing one is run.
	Programs []string
}

// HostLabels returns the paths of any host.
func HostLabels() Labels {
	return Labels{FileSystem: "/sys/fs/selinux", Programs: []string{"/usr/sbin/restorecon", "/sbin/restorecon"}}
}

// Restore labels a folder and everything below it according to the policy. It does nothing if
// SELinux is not in use, or no program here can label files.
func (l Labels) Restore(ctx context.Context, dir string) error {
	if _, err := os.Stat(filepath.Join(l.FileSystem, "enforce")); err != nil {
		return nil
	}
	for _, program := range l.Programs {
		if _, err := os.Stat(program); err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, restoreLimit)
		defer cancel()
		// -F: otherwise files that were moved here from elsewhere keep their labels.
		if out, err := exec.CommandContext(ctx, program, "-RF", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("label %s for SELinux: %w: %s", dir, err, bytes.TrimSpace(out))
		}
		return nil
	}
	return nil
}
