package host

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Unit returns the properties of a unit, as "systemctl show" names and prints
// them. A unit that does not exist has LoadState=not-found.
func (h *Host) Unit(ctx context.Context, name string) (map[string]string, error) {
	r, err := h.Run(ctx, "systemctl", "show", "--all", "--", name)
	if err != nil {
		return nil, err
	}
	if r.Code != 0 {
		return nil, fmt.Errorf("show unit %s: %s", name, r.Stderr)
	}
	props := map[string]string{}
	for line := range strings.Lines(r.Stdout) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		props[name] = value
	}
	return props, nil
}

// Journal returns the messages of a unit, of all boots, oldest first, one a
// line; of all units if unit is empty. It works on a host that is off, too.
func (h *Host) Journal(ctx context.Context, unit string) (string, error) {
	args := []string{"--quiet", "--no-pager", "--output=cat"}
	if unit != "" {
		args = append(args, "--unit="+unit)
	}
	if !h.Running() {
		out, err := exec.CommandContext(ctx, "journalctl", append(args, "--directory="+filepath.Join(h.Dir, "root/var/log/journal"))...).Output()
		return string(out), err
	}
	if r, err := h.Run(ctx, "journalctl", "--sync"); err != nil || r.Code != 0 {
		return "", fmt.Errorf("read journal: %v %s", err, r.Stderr)
	}
	r, err := h.Run(ctx, append([]string{"journalctl"}, args...)...)
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("read journal: %s", r.Stderr)
	}
	return r.Stdout, err
}
