package transaction

import (
	"context"
	"os"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// CheckLed refuses to put the unit of a version where somebody wrote another one that leads the agent elsewhere, and the agent was
// started so: its next start would go on with another configuration or another database. What systemd knows decides, and no word
// of the agent's. A unit that was written since, or that no agent runs by, is not the agent's. A *failure.RefusedError says what to do.
func CheckLed(ctx context.Context, m *Machine, tree versions.Tree, seen Seen) error {
	unit, err := m.Host.UnitOf(tree)
	if err != nil {
		return nil // whoever places it says so
	}
	now, then, elsewhere := host.LedElsewhere(m.Host, unit.Content)
	if !elsewhere {
		return nil
	}
	sight, err := seen.Sight(ctx)
	if err != nil {
		return err
	}
	info, err := os.Lstat(m.Host.Paths.Unit())
	written := err == nil && info.Mode().IsRegular()
	if !written || sight.State != state.AgentRunning || !sight.Since.After(info.ModTime()) {
		return nil
	}
	if m.Host.AgentUnit().CheckLoaded(sight.Unit) != nil {
		return nil
	}
	return failure.Unchanged("somebody wrote %s, which leads the agent to %s, and the unit of version %s would lead it to %s: the unit stays "+
		"as it is", m.Host.Paths.Unit(), now, tree.Release.Short(), then).
		To("write the command into a drop-in (`systemctl edit %s`: ExecStart=, then the whole command), which a change of version keeps",
			m.Host.Paths.AgentUnit()).Refused()
}
