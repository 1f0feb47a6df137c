package transaction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/systemd"
)

// reloadSystemd makes systemd read the unit. If systemd cannot be reached at a boot, the first tick
// does that.
func (t *transaction) reloadSystemd(ctx context.Context) error {
	later, err := t.reloadOrLeave(ctx)
	if later {
		return t.j.journalReloadOwed(true)
	}
	return wrap(err, "make systemd read the old unit: %w")
}

// reloadOrLeave makes systemd read its files, or leaves that for later if systemd cannot be
// reached.
func (t *transaction) reloadOrLeave(ctx context.Context) (later bool, err error) {
	err = t.agent.DaemonReload(ctx)
	if _, gone := t.agent.(unreachable); gone {
		t.m.Host.Log.Warn("systemd cannot be reached; the next run makes it read the unit", "error", err)
		return true, nil
	}
	return false, err
}

// settleReload makes systemd read the files that it could not be asked to read at boot.
func (t *transaction) settleReload(ctx context.Context) error {
	if !t.j.Agent.ReloadOwed {
		return nil
	}
	if err := t.agent.DaemonReload(ctx); err != nil {
		return fmt.Errorf("make systemd read the unit: %w", err)
	}
	return t.j.journalReloadOwed(false)
}

// ErrorCode returns the cause of a failure as clusters know it: see state.LastUpdate.
func ErrorCode(cause error) (code int) {
	if errors.Is(cause, unix.ENOSPC) {
		code |= 1
	}
	if failure.Is[*reloadError](cause) {
		code |= 2
	}
	return code
}

// reloadError says that systemd did not read its files again.
type reloadError struct{ error }

func (e *reloadError) Unwrap() error { return e.error }

// tryLimit is more than a program needs to say what it is, on a busy host with a slow disk.
const tryLimit = 30 * time.Second

// systemdRuns returns why systemd could not run a program that this process can: a security module, as SELinux, decides by the
// process that executes it, and systemd executes the recovery at boot.
func systemdRuns(ctx context.Context, by runner, program string) error {
	said, says, err := os.Pipe() // what it says is known, fits in, and is not for the journal
	if err != nil {
		return err
	}
	defer said.Close()
	defer says.Close()
	// The drop-in of units of transactions gives each of them hours.
	ctx, cancel := context.WithTimeoutCause(ctx, tryLimit, fmt.Errorf("it has not ended within %v", tryLimit))
	defer cancel()
	code, ran, err := by.RunTransient(ctx, systemd.Transient{
		Description: "a try of the recovery of teleport-update",
		Argv:        []string{program, "version", "--format", "json"},
		Env:         []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"},
		RuntimeMax:  tryLimit,
		Stdout:      says,
	})
	switch {
	case outOfReach(err), failure.Is[*systemd.GoesOnError](err):
		return fmt.Errorf("have systemd run %s: %w", program, err)
	case err != nil:
		return fmt.Errorf("systemd cannot run %s, and this process can: %w; a security module may forbid it, as SELinux where the file has "+
			"not the label bin_t (`ls -Z %[1]s`, `ausearch -m avc -ts recent`)", program, err)
	case ran && code != 0:
		return fmt.Errorf("%s ends with %d if systemd runs it, and with 0 if this process does", program, code)
	}
	return nil
}

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
// is systemd's folder there: without systemd nothing is needed.
func CheckRun(systemd string) error {
	full := fullRun(systemd)
	switch {
	case full == nil:
		return nil
	case full.Inodes:
		return failure.Unchanged("%w", full).
			To("remove files from /run that nothing needs, or mount it with more inodes (nr_inodes=), then run the command again").Refused()
	}
	return failure.Unchanged("%w", full).To("free some space in /run, then run the command again").Refused()
}

func fullRun(systemd string) *space.Error {
	if !host.Exists(systemd) {
		return nil
	}
	return space.CheckForRoot(systemd, roomOfChange, filesOfChange)
}
