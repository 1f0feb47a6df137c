package transaction

import (
	"context"
	"strings"
	"time"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/regular"
	"teleport-update/systemd"
)

// How the agent is stopped, and when it is not.

// notBeingStopped: a job of ours would take the place of a stop that somebody else asked for, and start the agent
// again. Once the agent is down, it is known what it is to be.
func notBeingStopped(p *Preflight, ctx context.Context) error {
	if !p.Sight.StopPending && p.Sight.ActiveState != "deactivating" {
		return nil
	}
	if err := hostStaysUp(p, ctx); err != nil {
		return err
	}
	return failure.Refuse("%[1]s is being stopped, and a change of the version would start it again: wait until it is down "+
		"(`systemctl status %[1]s`), then run the command again; the next run of the timer does so", p.t.m.Host.Paths.AgentUnit())
}

// hostStaysUp: a person may have stopped the agent, or the shutdown of the host just now. Then nobody
// could say whether the new version is healthy.
func hostStaysUp(p *Preflight, ctx context.Context) error {
	stopping, err := p.t.agent.Stopping(ctx)
	if err == nil && stopping {
		err = health.ErrHostStopping
	}
	return err
}

// stopEnds: an agent that is being stopped takes no sessions, and no job takes that back. A version that failed is killed.
func stopEnds(p *Preflight, _ context.Context) error {
	if !p.Sight.drainsForLong() {
		return nil
	}
	limit := "infinity"
	if p.Sight.StopTimeout != systemd.Forever {
		limit = p.Sight.StopTimeout.String()
	}
	return failure.Refuse("the change stops %[1]s, which may take too long (TimeoutStopSec=%[2]s), with no agent for new sessions: "+
		"`systemctl edit %[1]s` with `[Service]` and `TimeoutStopSec=%[3]s` limits that, or stop the agent first",
		p.t.m.Host.Paths.AgentUnit(), limit, killAfter)
}

// drainsForLong reports whether systemd lets the agent take longer for its stop than any job is waited for: nobody can
// take such a stop back once it has begun.
func (s Sight) drainsForLong() bool { return s.StopTimeout > systemd.JobCap }

// mustReadAgain reports whether systemd has to read its files before it stops the agent.
//
// An agent that was reloaded since it was started runs as a process that systemd learned of from
// the PID file. If its parent, the process before, still lived at that moment, systemd takes it for
// no child of its own, for good, and does not wait for such a process to obey: it kills it at once
// (seen on systemd 252). Reading its files again makes systemd look again. It must not do so while
// the parent lives, or when the process is dead: it would then wait for the process in vain, four
// times the unit's stop timeout, without an agent meanwhile. A version that failed may die at any
// moment, so it is not given this time.
func (s Sight) mustReadAgain(how manner) bool {
	learned := s.PIDFile != "" || s.Type != "simple" && s.Type != "exec"
	return how == inOrder && learned && s.Main.Parent == 1
}

// killAfter is how long a version that failed has for its stop if its unit does not limit that to a time that can be
// waited for. systemd's own default is as long.
const killAfter = 90 * time.Second

// stopLimit returns after which time of its stop we kill the agent; 0 means that systemd does so.
func (s Sight) stopLimit(how manner) time.Duration {
	if how == atOnce && s.drainsForLong() {
		return killAfter
	}
	return 0
}

// Stop stops the agent.
func (a *realAgent) Stop(ctx context.Context, how manner) error {
	s, err := a.Look(ctx)
	if err != nil {
		return err
	}
	return s.stop(ctx, how, a.DaemonReload, func(ctx context.Context) error {
		if limit := s.stopLimit(how); limit > 0 {
			a.log.Info("the agent is stopped, and killed if it has not ended by then", "unit", a.unit, "limit", limit)
			return a.Conn.StopWithin(ctx, a.unit, limit)
		}
		return a.Conn.Stop(ctx, a.unit)
	})
}

// stop stops the agent that was seen, with the calls to systemd that it is given.
func (s Sight) stop(ctx context.Context, how manner, readAgain, stopUnit func(context.Context) error) error {
	if s.unknown() || s.unloadable() {
		return nil // systemd refuses to stop an unknown unit
	}
	if s.mustReadAgain(how) {
		if err := readAgain(ctx); err != nil {
			return err
		}
	}
	return stopUnit(ctx)
}

// noting is the agent with a note of each stop in /run: which run of it was ended, how its unit was enabled, and which units go
// down with it. If somebody removes the journal and the backup is believed no more, nothing else distinguishes a transaction's
// stop from an administrator's.
type noting struct {
	Agent
	m *Machine
}

// Stop notes the stop before it begins.
func (n noting) Stop(ctx context.Context, how manner) error {
	recordStop(ctx, n.m, n.Agent)
	return n.Agent.Stop(ctx, how)
}

// recordStop writes the note of a stop that is about to begin, for a stop goes on even if its caller ends. A note that cannot be
// written stops nothing: an undoing goes by the journal.
func recordStop(ctx context.Context, m *Machine, agent Agent) {
	note := m.Host.Paths.Stopped()
	if sight, err := agent.Look(ctx); note != "" && err == nil && sight.started() && sight.InvocationID != "" {
		if units, err := goesDown(ctx, agent, sight.Ties); err == nil {
			addWentDown(ctx, m, agent, units)
		}
		_ = state.WriteForRoot(note, []byte(sight.InvocationID+" "+sight.UnitFileState+"\n"))
	}
}

// closeStop starts the units that went down with an agent that was stopped, and removes the note of the stop: the agent is as
// somebody wants it.
func closeStop(ctx context.Context, m *Machine, agent Agent) error {
	if err := startWentDown(ctx, m, agent); err != nil {
		return err
	}
	return forgetStop(m.Host.Paths.Stopped())
}

// The notes in /run about a stop of ours.

// readStop reads the note of a stop: which run of the agent was ended, and how its unit was enabled. Without a note, both are empty.
func readStop(note string) (ended, enabled string, err error) {
	if host.Absent(note) {
		return "", "", nil
	}
	run, err := regular.Read(note, 256, regular.NoLink|regular.Sealed)
	ended, enabled, ofToday := strings.Cut(strings.TrimSpace(string(run)), " ")
	if !ofToday {
		enabled = "enabled" // an older program wrote no more
	}
	return ended, enabled, err
}

// isStopOfOurs reports whether an agent is down by the stop in the note: it was not started since.
func isStopOfOurs(m *Machine, sight Sight) bool {
	ended, _, err := readStop(m.Host.Paths.Stopped())
	return err == nil && ended != "" && ended == sight.InvocationID && !sight.started()
}

// IsClosed reports whether there is nothing to recover: no journal, and no note.
func IsClosed(p state.Paths) bool { return host.Absent(p.Journal()) && nothingStopped(p) }

// nothingStopped reports whether there is no note of a stop, nor of units that went down with the agent.
func nothingStopped(p state.Paths) bool {
	return p.Stopped() == "" || host.Absent(p.Stopped()) && host.Absent(p.WentDown())
}

// losesData reports whether the agent's data go with each stop: then there is nothing to back up or
// to restore, and the agent begins with no data after each start, as it does without a change.
func losesData(sight Sight, database string) bool {
	return sight.Ties.LosesOnStop(database)
}
