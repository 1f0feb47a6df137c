// Package selinux gives files the labels that the host's policy has for where
// they are.
//
// A file gets its label from the folder that it is made in. Programs below
// /var/lib would have one that systemd may not execute; the policy module of the
// package says which one they are to have, and somebody has to apply it to every
// version that comes.
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

// restoreLimit is far more than a few files take.
const restoreLimit = time.Minute

// Labels says where SELinux is found on this host.
type Labels struct {
	// FileSystem is where the kernel shows its state.
	FileSystem string
	// Programs are the places of restorecon(8): the first one is run that exists.
	Programs []string
}

// HostLabels are those of any host.
func HostLabels() Labels {
	return Labels{FileSystem: "/sys/fs/selinux", Programs: []string{"/usr/sbin/restorecon", "/sbin/restorecon"}}
}

// Restore labels a folder and everything below it as the policy says. It does
// nothing where SELinux is not in use, or where nothing here can label files.
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
		// -F: what was moved here from elsewhere keeps its label otherwise.
		if out, err := exec.CommandContext(ctx, program, "-RF", dir).CombinedOutput(); err != nil {
			return fmt.Errorf("label %s for SELinux: %w: %s", dir, err, bytes.TrimSpace(out))
		}
		return nil
	}
	return nil
}
