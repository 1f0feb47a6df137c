package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// SoftReboot has systemd end all units and start them again under the kernel that runs, and returns
// when the default target is up: the boot id stays, and so does what is in /run. Forced, processes are
// killed and no unit is stopped first. It needs systemd 254 or later.
func (h *Host) SoftReboot(ctx context.Context, forced bool) error {
	before, err := h.softReboots(ctx)
	if err != nil {
		return err
	}
	args := []string{"systemctl", "--no-wall", "soft-reboot"}
	if forced {
		args = append(args, "--force")
	}
	// Forced, it may be killed by what it asked for.
	r, err := h.Run(ctx, args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	for ; ; time.Sleep(20 * time.Millisecond) {
		now, err := h.softReboots(ctx)
		if err == nil && now != before && h.up(ctx) {
			return nil
		}
		if errors.Is(err, ErrOff) {
			return fmt.Errorf("soft reboot of %s: %w", h.Name, err)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("soft reboot of %s: not up: %w (%s%s)", h.Name, context.Cause(ctx), r.Stdout, r.Stderr)
		}
	}
}

// softReboots tells one soft reboot from the next by the start of the first target: systemd 254 and 255 do
// not count them.
func (h *Host) softReboots(ctx context.Context) (string, error) {
	r, err := h.Run(ctx, "systemctl", "show", "--property=InvocationID", "--value", "sysinit.target")
	id := strings.TrimSpace(r.Stdout)
	if err == nil && id == "" {
		err = fmt.Errorf("systemd of %s has not begun to start: %s", h.Name, r.Stderr)
	}
	return id, err
}

// up reports whether systemd has finished starting up.
func (h *Host) up(ctx context.Context) bool {
	r, err := h.Run(ctx, "systemctl", "is-system-running")
	return err == nil && slices.Contains([]string{"running", "degraded"}, strings.TrimSpace(r.Stdout))
}
