package transaction

import (
	"cmp"
	"context"

	"teleport-update/health"
	"teleport-update/installer/state"
)

// proveNew makes the agent run the new version and watches its health. An agent that
// nobody wants to run is left alone: the version counts as active, unproven.
func (s *doing) proveNew(ctx context.Context) error {
	if !s.j.Agent.State.Wanted() {
		return nil
	}
	sight, err := s.agent.Look(ctx)
	if err != nil {
		return err
	}
	w := watchOf(s.req.tree.ProgramsDir(), s.req.spec().Health, sight)
	if least := health.MinWindow(sight.Unit); w.Window.Std() < least {
		s.log.Warn("the health window is shorter than it takes to see a slow crash loop", "window", w.Window.Std(), "advised", least)
	}
	// A stop that has not ended is another's: one of ours was waited for.
	if (sight.Idle() || sight.StopPending) && !s.j.Database.Stop {
		if stopping, err := s.agent.Stopping(ctx); err != nil {
			return err
		} else if stopping {
			return health.ErrHostStopping
		}
		s.log.Info("the agent was stopped since the transaction began, and stays down", "version", s.req.To.String())
		return s.j.setAgent(state.AgentStopped)
	}
	if sight.Running() && s.j.Agent.State == state.AgentRunning {
		w.CanStart = s.held.canStart
	}
	if sight.Ties.Commands { // with the end of the first process: a run that goes on after a kill cannot see it
		w.Looked = func() { warn(s.log, s.journalRemovedData(ctx), "whether the agent's data were removed cannot be told") }
	}
	by := health.Reload
	switch {
	case s.j.Database.Stop:
		by = health.Start
	case s.req.Restart, s.j.Agent.State == state.AgentFailing, s.j.Agent.Program != sight.ExecStart:
		// A reload would have an agent that was started by another path, say a
		// package's, start that one again.
		by = health.Restart
	}
	outcome, err := s.health.Prove(ctx, by, w)
	if err != nil {
		return err
	}
	s.log.Info("the agent is healthy", "version", s.req.To.String(), "restarted", outcome.Restarted)
	return nil
}

// watchOf describes the health watch of a version in dir: for as long as a person
// said, else long enough to see it fail again and again.
func watchOf(dir string, spec state.HealthSpec, s Sight) health.Watch {
	w := health.Watch{Dir: dir, Settings: spec.Settings}
	w.Window = cmp.Or(w.Window, state.Duration(health.DefaultWindow(s.Unit)))
	return w
}

// healthSpec is how the versions of this transaction are watched: what an open one needs
// is in its record, whatever becomes of the file meanwhile. A person may only shorten a
// window with it.
func (t *transaction) healthSpec() (state.HealthSpec, error) {
	if t.j.Commit.Spec != nil {
		return t.j.Commit.Spec.Health, nil
	}
	c, err := t.found()
	spec := c.Spec.Health
	if now, readErr := t.m.FreshConfig(); readErr == nil && now.Spec.Health.Window > 0 && now.Spec.Health.Window < spec.Window {
		spec.Window = now.Spec.Health.Window
	}
	return spec, err
}
