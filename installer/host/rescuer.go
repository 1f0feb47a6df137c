package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"time"

	"teleport-update/internal/executable"
	"teleport-update/internal/trust"
)

// rescuerLimit is far more than it takes a program to say what it is, on a busy host
// with a slow disk.
const rescuerLimit = 30 * time.Second

// Rescuer asks the program that the recovery at boot runs for the highest schema of a
// journal that it can act on; 0 and an error where it does not say. It is asked each
// time: a package may have exchanged it since.
func (h *Host) Rescuer(ctx context.Context) (program string, schema int, err error) {
	if program, err = h.OwnUnits().Rescuer(); err != nil {
		return program, 0, err
	}
	if err := trust.Executable(program); err != nil {
		return program, 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, rescuerLimit, fmt.Errorf("no answer within %v", rescuerLimit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "version", "--format", "json")
	cmd.Env, cmd.WaitDelay = []string{}, time.Second // what this run was told is not for that one
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, fs.ErrPermission) {
		// The kernel has one word for a lost mode, and for a mount with noexec.
		if why, blind := executable.Why(program); blind == nil && why != nil {
			return program, 0, why
		}
	}
	var says struct {
		Schema int `json:"schema"`
	}
	if err == nil {
		err = json.Unmarshal(out, &says)
	}
	if err != nil {
		return program, 0, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	return program, says.Schema, nil
}
