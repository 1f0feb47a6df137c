package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// RestartActive restarts the agent on the version that it is on, by a person's word, and watches
// it. Nothing is undone if it fails: no other version is involved.
func (m *Machine) RestartActive(ctx context.Context, c state.Config) error {
	return restartActive(ctx, m, c, func(agent Agent, tree versions.Tree, sight Sight) error {
		if err := restartNoted(ctx, m, agent, watchOf(tree.ProgramsDir(), c.Spec.Health, sight)); err != nil {
			return fmt.Errorf("the agent was restarted and is not healthy: %w; version %s stays: look at `journalctl --unit %s`", err,
				c.Active().Short(), m.Host.Paths.AgentUnit())
		}
		m.Host.Log.Info("the agent was restarted and is healthy", "version", c.Active().Short())
		return nil
	})
}

// restartNoted restarts the agent and watches it, with a note of the stop that a restart begins with: if a unit that the agent needs
// fails, systemd leaves the agent down, and the next run, which finds the note, starts it. The note is of no use once the agent was
// started again, or once a person stopped it: then no run may start it.
func restartNoted(ctx context.Context, m *Machine, agent Agent, w health.Watch) error {
	recordStop(ctx, m, agent)
	_, err := agent.Prove(ctx, health.Restart, w)
	unhealthy, is := errors.AsType[*health.UnhealthyError](err)
	over := err == nil || is && unhealthy.Stopped
	if !over {
		sight, unseen := agent.Look(ctx)
		over = unseen == nil && sight.started()
	}
	if over {
		m.warn(closeStop(ctx, m, agent), "the next run starts what went down with the agent")
	}
	return err
}

// CheckRestart returns the error with which RestartActive would refuse.
func CheckRestart(ctx context.Context, m *Machine, c state.Config) error {
	return restartActive(ctx, m, c, func(Agent, versions.Tree, Sight) error { return nil })
}

// restartActive asks all checks that can refuse a restart, and goes on if none does.
func restartActive(ctx context.Context, m *Machine, c state.Config, goOn func(Agent, versions.Tree, Sight) error) error {
	tree, ok, err := m.Active(c)
	if err != nil || !ok {
		return failure.Unchanged("the active version %s is not whole on disk", OrNone(c.Spec.ActiveVersion)).
			To("`teleport-update update --now` first")
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	sight, err := agent.Look(ctx)
	if err != nil {
		return err
	}
	if err := sight.frozen(); err != nil {
		return err
	}
	if err := checkTakesOver(m.Host.Store, sight, c); err != nil {
		return err
	}
	if err := checkRestarts(ctx, m, agent, sight); err != nil {
		return err
	}
	return goOn(agent, tree, sight)
}

// checkRestarts refuses to stop an agent that systemd would not stop or would not start again, or whose stop ends the host.
func checkRestarts(ctx context.Context, m *Machine, agent Agent, sight Sight) error {
	if !sight.started() {
		return nil
	}
	if err := m.Host.CheckCanStop(sight.Unit); err != nil {
		return failure.Unchanged("the agent cannot be restarted: %w", err)
	}
	if !sight.Running() {
		return nil // it crashes: the restart may be for the very cause
	}
	err := m.checkStartsAgain(ctx, agent, sight, "")
	if err == nil {
		err = checkNeeds(ctx, m, agent, sight)
	}
	if err == nil {
		err = host.CheckNeedFailed(ctx, sight.Unit, agent.Unit)
	}
	if err != nil {
		return failure.Unchanged("the agent, which runs, would not start again as it is: %w", err)
	}
	return nil
}

// checkTakesOver refuses a restart that would start the linked version on the database of a program that may have changed
// it: a newer version, or an unknown one. status advises no restart of such an agent either.
func checkTakesOver(kept *versions.Store, sight Sight, c state.Config) error {
	linked := c.Active()
	program := cmp.Or(sight.Serving, sight.Main).Exe
	if program == "" {
		return nil // nothing runs, or the watch reports that it cannot be seen
	}
	runs, known := kept.ReleaseOf(program)
	switch {
	case known && runs.Version != linked.Version && c.Edited():
		return failure.Unchanged("the agent runs version %s, and the restart may start version %s, to which no change of version led, without "+
			"a backup of the agent's database", runs.Short(), linked.Short()).To("%s", c.GoOnWith(runs)).Refused()
	case known && version.Compare(runs.Version, linked.Version) <= 0:
		return nil
	}
	what := program + ", which is not a kept version"
	if known {
		what = "version " + runs.Short()
	}
	refusal := failure.Unchanged("the agent runs %s, and the restart would start version %s, which may not be able to read "+
		"the agent's database", what, linked.Short())
	if _, there, err := kept.Lookup(runs); known && there && err == nil {
		return refusal.To("`teleport-update pin %s` links the version that runs", runs.Version).Refused()
	}
	return refusal.Refused()
}

// frozen refuses to touch an agent whose processes a person keeps from running: nobody can prove a version on it, and systemd carries
// out none of its jobs (257), or ends the freeze with one (252).
func (s Sight) frozen() error {
	if !s.Frozen {
		return nil
	}
	return failure.Refuse("somebody keeps the agent's processes from running (systemctl freeze): `%s` first", s.Thaw())
}
