package host

import (
	"context"
	"path/filepath"
	"strings"

	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// CheckRecovery says what would keep the recovery at boot from its work, as systemd has its unit: a mask,
// or an addition of a drop-in. It is nil if nothing shows, or no systemd runs. Rescuer tries the program
// that the unit runs.
func (h *Host) CheckRecovery(ctx context.Context, u systemd.Unit) *failure.Error {
	look := "look at " + strings.Join(u.OthersDropIns(), ", ")
	switch {
	case u.LoadState == "":
		return nil
	case u.LoadState != "loaded":
		return failure.Unchanged("systemd has %s as %s", u.Name, u.LoadState).To("%s", MendOwn(u))
	case u.User != "" && u.User != "root" && u.User != "0":
		return failure.Unchanged("%s is started as user %s, who cannot repair anything", u.Name, u.User).To("%s", look)
	case len(u.Command) > 0 && !u.Runs("recover") && u.RunsByShell("recover --boot"):
		return failure.Unchanged("%s is started through %s, and whether that runs the recovery cannot be tried", u.Name, u.Command[0]).
			To("%s", look)
	case len(u.Command) > 0 && !u.Runs("recover"): // its words may hold a password
		return failure.Unchanged("%s starts %s, which is not the recovery", u.Name, u.Command[0]).To("%s", look)
	}
	for _, c := range u.Ties.Unmet(ctx) {
		if c.Parameter != h.Paths.Journal() {
			return failure.Unchanged("%s would not be started, for %s does not hold", u.Name, c).To("%s", look)
		}
	}
	if setting := u.Ties.Startup.Obstacle(); setting != "" {
		return failure.Unchanged("%s would not come to its end, for %s keeps it from that", u.Name, setting).To("%s", look)
	}
	if short := h.CheckLimits(u); short != nil {
		return short
	}
	if before := u.Ties.Startup.Before; len(before) > 0 {
		return failure.Unchanged("%s would not be started if another command fails, %s", u.Name, before[0]).
			To("%s; ExecStartPre=- goes on after a failure", look)
	}
	folders := []string{h.Paths.LinkDir, h.Paths.UnitDir, h.Paths.Versions()}
	if database, err := h.Database(); err == nil {
		folders = append(folders, filepath.Dir(database))
	}
	if setting := keepsRecovery(u, folders); setting != "" {
		return failure.Unchanged("%s could not do its work, for %s keeps it from that", u.Name, setting).To("%s", look)
	}
	return nil
}

// CheckLimits names the limit by which one of the updater's own units, u, may not come to the end of an undoing; nil without such a
// limit.
func (h *Host) CheckLimits(u systemd.Unit) *failure.Error {
	short := h.OwnUnits().ShortLimit(u)
	if short == nil {
		return nil
	}
	return failure.Unchanged("%s may not come to the end of an undoing: %v ranks above the updater's own limit", u.Name, short).
		To("remove that setting and run `systemctl daemon-reload`")
}

// keepsRecovery returns the setting of the recovery's unit that keeps it from its program, or from a
// folder in which it puts files back; empty if none does. A missing folder is left out.
func keepsRecovery(u systemd.Unit, folders []string) string {
	need := map[string]systemd.Access{u.ExecStart: systemd.Executing}
	for _, dir := range folders {
		need[dir] = systemd.Writing
	}
	for path, to := range need {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if setting := u.Ties.View.Denies(real, to); setting != "" {
			return setting
		}
	}
	return ""
}
