package host

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"teleport-update/internal/executable"
	"teleport-update/internal/trust"
	"teleport-update/systemd"
)

// rescuerLimit is far more than it takes a program to say what it is, on a busy host
// with a slow disk.
const rescuerLimit = 30 * time.Second

// Rescuer asks the program that the recovery at boot runs for the highest schema of a journal that
// it can act on; 0 and an error if it does not say. It is asked each time: a package may have
// exchanged it since.
func (h *Host) Rescuer(ctx context.Context) (program string, schema int, err error) {
	if program, err = h.OwnUnits().Rescuer(); err != nil {
		return program, 0, err
	}
	schema, err = schemaOf(ctx, program)
	return program, schema, err
}

// LoadedRescuer is Rescuer for the command that systemd has loaded for the recovery, if a drop-in put another one around
// the program or in its place: it asks in the same way, with the words before "recover".
func LoadedRescuer(ctx context.Context, recovery systemd.Unit) (schema int, err error) {
	words := recovery.Command
	for _, later := range recovery.Later {
		if !slices.Contains(words, recovers) {
			words = later
		}
	}
	n := slices.Index(words, recovers)
	if n < 1 {
		return 0, fmt.Errorf("%s runs no recovery", recovery.Name)
	}
	program := words[0]
	if slices.Equal(words, recovery.Command) {
		program = recovery.ExecStart
	}
	return schemaOf(ctx, program, words[1:n]...)
}

// recovers is the updater's command for a recovery.
const recovers = "recover"

// schemaOf asks an updater, with words that may come before, for the highest schema of a journal that it can act on.
func schemaOf(ctx context.Context, program string, words ...string) (schema int, err error) {
	// The kernel has one error for a lost mode, and for a mount with noexec.
	if why, blind := executable.Why(program); blind == nil && why != nil {
		return 0, why
	}
	if err := trust.Executable(program); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, rescuerLimit, fmt.Errorf("no answer within %v", rescuerLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(words, "version", "--format", "json")...)
	// The environment of this run is not for that program. Words before it are found in a PATH like systemd's.
	cmd.Env, cmd.WaitDelay = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"}, time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var says struct {
		Schema int `json:"schema"`
	}
	if err == nil {
		err = json.Unmarshal(out, &says)
	}
	if err != nil {
		return 0, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	return says.Schema, nil
}
