package transaction

import (
	"context"
	"errors"

	"teleport-update/health"
	"teleport-update/health/settings"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// bringBack sees the old version run, where it ran before, and watches whether it is healthy.
// After an undoing that failed, and that the next run begins again, it only sees
// that some agent runs: some agent beats none, as it does at boot.
func (u *undoing) bringBack(ctx context.Context) error {
	err := u.seeItBack(ctx)
	seen := err == nil || failure.Is[*health.UnhealthyError](err) || errors.Is(err, health.ErrHostStopping)
	if seen || u.err != nil || u.j.Watch.OldServes || !u.j.Agent.State.Wanted() {
		return err
	}
	return errors.Join(err, u.agent.Start(ctx))
}

func (u *undoing) seeItBack(ctx context.Context) error {
	if u.err != nil {
		// First: what an agent writes from now on is not to be lost to another restore, and
		// status tells what is in the way.
		err := u.j.flush()
		if u.j.Agent.State.Wanted() {
			err = errors.Join(err, u.agent.Start(ctx))
		}
		return err
	}
	if err := u.reloads.settleReload(ctx); err != nil {
		return err
	}
	if u.j.Watch.Over {
		return nil
	}
	if err := u.seeFilesBack(ctx); err != nil {
		return err
	}
	if err := u.seeOldThere(ctx); err != nil && u.j.Agent.State.Wanted() {
		u.log.Error("the agent is tried all the same", "error", err)
	}
	err := u.watchOld(ctx)
	if err == nil && u.j.Watch.OldServes {
		// Its next start is not watched.
		_, err = u.moveFirstAside(ctx)
	}
	if failure.Is[*health.UnhealthyError](err) {
		if moved, moveErr := u.moveFirstAside(ctx); moved || moveErr != nil {
			if err = moveErr; err == nil {
				err = u.watchOld(ctx)
			}
		}
	}
	unhealthy, ok := errors.AsType[*health.UnhealthyError](err)
	if !ok || unhealthy.Prevented != nil {
		// What the host prevents says nothing about the old version: each run tries again.
		return err
	}
	if unhealthy.NeverBegan && u.j.Verdict.NeverBegan {
		u.log.Error("systemd begins neither version, so the host keeps the agent down: each run tries again", "error", err)
		return errors.Join(err, u.j.journalAgainst(state.AgainstCircumstances))
	}
	// It is tried once more, by the next run: then the journal is closed all the
	// same. All is back in its place, and as long as the journal is open no other
	// version can come and help.
	if u.j.Watch.OldFails == "" {
		return errors.Join(err, u.j.journalOldFails(unhealthy.Error()))
	}
	u.log.Error("the version before is not healthy either; its links, unit and database are back: try another version", "error", err)
	return u.j.setVerdict(u.j.Verdict.Against, u.j.Verdict.Reason+"; and the version before is not healthy either: "+unhealthy.Error())
}

func (u *undoing) watchOld(ctx context.Context) error {
	if u.j.Watch.OldServes {
		return nil
	}
	sight, err := u.agent.Look(ctx)
	if err != nil {
		return err
	}
	if sight.mainFrom(u.j.To.ProgramsDir()) {
		// Started between a stop of ours and the links.
		if err := u.journalIfStarted(sight); err != nil {
			return err
		}
	}
	if !u.j.Agent.State.Wanted() || sight.State == state.AgentUnknown {
		return nil
	}
	if sight.unknown() {
		u.log.Warn("systemd knows no unit of the agent, so none is started; links and database are back", "unit", sight.Name)
		return u.j.setAgent(state.AgentStopped)
	}
	stops := u.ownStopGoesOn(sight)
	if !u.j.reached("reload") && !stops && sight.MainPID != 0 && sight.MainPID == u.j.Agent.MainPID &&
		sight.InvocationID == u.j.Agent.InvocationID {
		return nil // nobody ever told it anything
	}
	dir, another := "", sight.mainFrom(u.j.To.ProgramsDir())
	if u.j.From != nil && !u.j.Database.Foreign && host.AgentLinkLed(u.j.Links, u.j.From.ProgramsDir()) {
		// What others had systemd start in its place is no agent.
		dir = u.j.From.ProgramsDir()
		another = !sight.runsFrom(dir)
	}
	// The old version is not asked for its ready_url: it serves as it served. Where
	// nobody knows how long it is to be watched, the usual time is enough.
	spec, _ := u.config.healthSpec()
	w := watchOf(dir, state.HealthSpec{Settings: settings.Settings{Window: spec.Window}}, sight)
	by := health.Restart
	switch {
	case stops:
		by = health.Start // takes the place of the stop, or comes after it
	case sight.State == state.AgentRunning && sight.MainPID != 0 && !another:
		by = health.Running // systemd started it at boot
	}
	_, err = u.agent.Prove(ctx, by, w)
	if unhealthy, ok := errors.AsType[*health.UnhealthyError](err); ok && unhealthy.Stopped {
		u.log.Info("the agent stays down: somebody stopped it while the old version was being watched")
		return u.j.setAgent(state.AgentStopped)
	}
	if err != nil && u.j.Agent.State == state.AgentFailing {
		u.log.Warn("the agent fails as it did before the transaction", "error", err)
		return nil
	}
	return wrap(err, "the old version was put back but is not healthy: %w")
}

// ownStopGoesOn reports whether the stop that the transaction asked for goes on, or waits for what stops first:
// the updater was killed meanwhile, or gave it up.
func (u *undoing) ownStopGoesOn(s Sight) bool {
	return u.j.Database.Stop && !u.j.reached("stop") && s.MainPID != 0 && (s.StopPending || s.ActiveState == "deactivating")
}
