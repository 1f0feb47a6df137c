package installer

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"teleport-update/health"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
)

const (
	// A run that cannot reach find has failed only after this time and this number of the timer's runs: proxies are upgraded, and hosts boot
	// before their network is there.
	unreachableFor  = time.Hour
	unreachableRuns = 4

	// eachTickFor is how long each run of the timer asks a failing mirror. Then it is asked after firstSpacing, doubling to longestSpacing.
	eachTickFor    = time.Hour
	firstSpacing   = 20 * time.Minute
	longestSpacing = 2 * time.Hour
)

// unansweredError means that find did not say what the cluster wants.
type unansweredError struct {
	error
	unreachable bool // see find.Unreachable
}

func (e *unansweredError) Unwrap() error { return e.error }

// mayFetch reports whether the mirrors are asked for a release now.
func (t *tick) mayFetch(ctx context.Context, w wanted) bool {
	if f := t.memory.Failing; t.i.Machine.Scheduled && f.Waits(t.i.Machine.Now()) && t.same(ctx, f.Cause, w) {
		t.waits = true
		t.i.Machine.Host.Log.Info("the download of the release failed before; the next attempt is later", "version", w.Version,
			"runs", f.Count, "next_attempt", f.NextAttempt.Format(time.RFC3339), "error", f.Error)
		return false
	}
	t.fetches = &w
	return true
}

func (t *tick) causeOf(w wanted) state.Cause {
	return state.Cause{Release: w.Release, Sources: strings.Join(w.Spec.URLTemplates, "\n"), Policy: t.rulesOf(w.Config)}
}

// rulesOf names the rules of the host's owner as they are now, also if they cannot be read.
func (t *tick) rulesOf(c state.Config) string {
	p, err := t.i.ownerRules().policy(c)
	if err != nil {
		return err.Error()
	}
	return p.Digest()
}

// same reports whether the cause of a failed fetch is unchanged.
func (t *tick) same(ctx context.Context, was state.Cause, w wanted) bool {
	is := t.causeOf(w)
	if was.Release != is.Release || was.Sources != is.Sources || was.Policy != is.Policy {
		return false
	}
	if was.Need > 0 {
		if free, err := space.At(was.At); err == nil && free.Bytes >= was.Need {
			return false
		}
	}
	if was.SHA256 != "" {
		if announced, err := t.i.obtainer().announced(ctx, w.Config, w.Release, w.Spec); err == nil && announced != was.SHA256 {
			return false
		}
	}
	return true
}

// end notes how the run ended, and returns the error that it ends with.
func (t *tick) end(ctx context.Context, err error) error {
	defer t.over()
	if t.i.Machine.Scheduled {
		t.logReason(err)
		err = t.judge(ctx, err)
	} else if err == nil {
		t.memory.Failing, t.memory.Unreachable = nil, nil
	}
	t.remember(err, ctx.Err())
	if t.i.Machine.Scheduled {
		t.i.Processes.LetGoOfProgram() // the pages that asked find
	}
	if t.i.Machine.Scheduled || err == nil {
		t.observe(ctx)
		if refused := t.goBack(ctx); err == nil && refused != nil {
			err = refused
			t.remember(err, ctx.Err())
		}
		t.startGivenUp(ctx)
		if err := t.memory.Save(t.i.Machine.Host.Paths.Ticks()); err != nil {
			t.i.Machine.Host.Log.Debug("the findings of this run could not be recorded", "error", err)
		}
	}
	return err
}

// remember notes that the run is over, and its error. A run that somebody ended, or that another updater kept from beginning, says nothing
// about the host.
func (t *tick) remember(err, ended error) {
	now := t.i.Machine.Timestamp()
	if t.i.Machine.Scheduled {
		t.memory.Over = now // else status takes it for a run that did nothing
	}
	switch {
	case ended != nil, failure.Is[*state.BusyError](err):
	case err == nil:
		t.memory.Good, t.memory.Error = now, ""
		if t.i.Machine.Scheduled {
			t.memory.Ended = now
		}
	case t.i.Machine.Scheduled:
		t.memory.Ended, t.memory.Error = now, err.Error()
		if c, unread := t.host().Config(); unread == nil {
			t.memory.Error = causeOf(err, c.Status.LastUpdate)
		}
	}
}

// logReason has the journal of the timer's unit say why a transaction failed: it ran in
// a transient unit, whose lines are in that unit's journal.
func (t *tick) logReason(err error) {
	exit, ok := errors.AsType[*transaction.ExitError](err)
	if !ok {
		return
	}
	reason := "see `teleport-update status --format text`"
	if c, unread := t.host().Config(); unread == nil {
		if cause := causeOf(err, c.Status.LastUpdate); cause != err.Error() {
			reason = cause
		}
	}
	t.i.Machine.Host.Log.Error("the update failed; see `journalctl -u 'teleport-update-switch-*'`", "exit_code", exit.Code, "error", reason)
}

// judge counts runs that fail, and returns nil for a run that has not failed yet.
func (t *tick) judge(ctx context.Context, err error) error {
	m, now := &t.memory, t.i.Machine.Timestamp()
	unanswered, noFind := errors.AsType[*unansweredError](err)
	switch {
	case failure.Is[*state.BusyError](err), ctx.Err() != nil:
		return err // says nothing about the host
	case t.i.Machine.Host.Paths.RunDir == "":
		return err // nobody remembers
	case noFind && unanswered.unreachable:
		if m.Unreachable == nil {
			m.Unreachable = &state.Unreachable{Since: now}
		}
		m.Unreachable.Runs++
		m.Unreachable.Error = unanswered.Error()
		if u := m.Unreachable; u.Runs < unreachableRuns || now.Sub(u.Since) < unreachableFor {
			t.i.Machine.Host.Log.Warn("the proxy's find endpoint cannot be reached; the next run tries again", "since",
				u.Since.Format(time.RFC3339), "error", err)
			return nil
		}
		m.Failing = &state.Failing{Count: m.Unreachable.Runs, First: m.Unreachable.Since, Last: now, Error: err.Error(), OfFind: true}
		return err
	}
	m.Unreachable = nil
	switch {
	case t.waits:
	case err == nil, explained(err):
		m.Failing = nil
	default:
		m.Failing = t.failed(ctx, m.Failing, now, err)
	}
	return err
}

// explained reports whether an error has a place of its own in status.
func explained(err error) bool {
	smoke, ok := errors.AsType[*SmokeError](err)
	return failure.Is[*failure.RefusedError](err) || failure.Is[*failure.NeedsPersonError](err) ||
		failure.Is[*transaction.ExitError](err) || ok && !ofHost(smoke.Err)
}

// failed counts one more run that failed. Only fetches are spaced: nothing else costs others anything.
func (t *tick) failed(ctx context.Context, before *state.Failing, now time.Time, err error) *state.Failing {
	f := cmp.Or(before, &state.Failing{First: now})
	f.Count, f.Last, f.Error = f.Count+1, now, err.Error()
	f.Cause, f.NextAttempt = state.Cause{}, time.Time{}
	f.OfFind = failure.Is[*unansweredError](err)
	if t.fetches == nil {
		f.Spaced = 0
		return f
	}
	f.Cause = t.causeOf(*t.fetches)
	if full, ok := errors.AsType[*space.Error](err); ok && !full.Inodes {
		f.Cause.Need, f.Cause.At = full.Need, full.Path
	}
	if now.Sub(f.First) >= eachTickFor {
		// A mirror that announces nothing is not asked for that again and again.
		f.Cause.SHA256, _ = t.i.obtainer().announced(ctx, t.fetches.Config, t.fetches.Release, t.fetches.Spec)
		f.NextAttempt = now.Add(t.spacing(f.Spaced)).UTC().Truncate(time.Second)
		f.Spaced++
	}
	return f
}

// spacing returns how long a mirror is left alone, shorter by up to a quarter at random.
func (t *tick) spacing(n int) time.Duration {
	d := min(firstSpacing<<min(n, 3), longestSpacing)
	return d - t.i.Jitter(d/4)
}

// observe looks at the agent at the end of a run: whether it has crashed again and again since the last one, and whether a version that
// nobody could watch is healthy now. If updates are off, it looks only for the end of a recorded state.
func (t *tick) observe(ctx context.Context) {
	c, err := t.host().Config()
	looks := err == nil && c.Spec.ActiveVersion != "" && (c.Spec.Enabled || t.memory.Unstable != nil || c.Status.Unproven)
	if paths := t.i.Machine.Host.Paths; !looks || paths.RunDir == "" || host.Exists(paths.Journal()) {
		return
	}
	sight, err := t.host().Agent(ctx)
	if err != nil || sight.State == state.AgentUnknown {
		return
	}
	active, m, now := c.Active(), &t.memory, t.i.Machine.Timestamp()
	unstable := m.Unstable != nil && m.Unstable.Release == active
	loops := crashed(sight.Unit, sight.State, m.Agent, unstable)
	m.Agent = &state.AgentSeen{Version: active.Version, Restarts: sight.NRestarts}
	if loops {
		if why := t.hostKeepsDown(ctx, sight.Unit); why != "" {
			m.Agent.OfHost, m.Unstable = true, nil
			t.i.Machine.Host.Log.Warn("the agent does not come up, and not because of its version", "version", active.Short(), "error", why)
			return
		}
	}
	if !loops {
		runs, healthy := t.healthy(c, sight)
		if !runs || healthy {
			m.Unstable = nil // until then it may be between two crashes
		}
		if healthy {
			t.prove(ctx, c)
			t.recordTables(ctx, c, sight)
		}
		return
	}
	if !t.i.Machine.Scheduled || !c.Spec.Enabled {
		return // the next run of the timer counts, if updates are on
	}
	if !unstable {
		m.Unstable = &state.Unstable{Release: active, Since: now}
	}
	u := m.Unstable
	u.Count, u.Last, u.Restarts = u.Count+1, now, sight.NRestarts
	t.i.Machine.Host.Log.Warn("the agent is unstable", "version", active.Short(), "restarts", u.Restarts, "runs", u.Count,
		"error", decision.Crashes(u, decision.LookAtJournal+", `teleport-update status` says what helps"))
}

// healthy reports whether the active version's agent runs, and whether it has done so for
// the health window.
func (t *tick) healthy(c state.Config, a survey.Agent) (runs, healthy bool) {
	window := cmp.Or(c.Spec.Health.Window.Std(), health.DefaultWindow(a.Unit))
	runs = a.State == state.AgentRunning && a.Is(c.Active()) && !a.Since.IsZero()
	return runs, runs && t.i.Machine.Now().Sub(a.Since) >= window
}

// prove takes a version that nobody could watch for proven: its agent was healthy. The tables that were noted at its commit are the
// previous version's, and the version may have changed them when it was started.
func (t *tick) prove(ctx context.Context, c state.Config) {
	if !c.Status.Unproven {
		return
	}
	if damage, err := t.host().Damage(ctx); damage != nil || err != nil {
		return // it may be another version that is healthy
	}
	tables, unread := t.host().Schema(ctx)
	err := changeStatus(ctx, t.i.Machine, func(now *state.Config) {
		if now.Active() == c.Active() {
			now.Status.Unproven = false
			if unread != nil || tables != "" {
				now.Status.ActiveSchema = tables // empty: the next run notes it
			}
		}
	})
	if err != nil {
		t.i.Machine.Host.Log.Debug("it could not be recorded that the version is proven", "error", err)
		return
	}
	t.i.Machine.Host.Log.Info("the version is proven: its agent runs for longer than the health window", "version", c.Spec.ActiveVersion)
}
