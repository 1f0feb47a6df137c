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
// killed and no unit is stopped first. It needs systemd 256 or later: older ones do not count soft
// reboots.
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

// softReboots is how many there were since the boot.
func (h *Host) softReboots(ctx context.Context) (string, error) {
	r, err := h.Run(ctx, "systemctl", "show", "--property=SoftRebootsCount", "--value")
	count := strings.TrimSpace(r.Stdout)
	if err == nil && count == "" {
		err = fmt.Errorf("systemd of %s counts no soft reboots: %s", h.Name, r.Stderr)
	}
	return count, err
}

// up reports whether systemd has finished starting up.
func (h *Host) up(ctx context.Context) bool {
	r, err := h.Run(ctx, "systemctl", "is-system-running")
	return err == nil && slices.Contains([]string{"running", "degraded"}, strings.TrimSpace(r.Stdout))
}
