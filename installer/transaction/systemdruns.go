package transaction

import (
	"context"
	"fmt"
	"os"
	"time"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// tryLimit is more than a program needs to say what it is, on a busy host with a slow disk.
const tryLimit = 30 * time.Second

// systemdRuns says why systemd could not run a program that this process can: a security module, as SELinux, decides by who executes
// what, and the recovery at boot is executed by systemd.
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
