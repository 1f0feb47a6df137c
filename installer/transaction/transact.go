package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/health"
	"teleport-update/internal/failure"
)

// transact is a transaction from lock to unlock.
func (m *Machine) transact(ctx context.Context, r Request) error {
	c, unlock, err := m.Open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	t := &transaction{m: m, agent: agent, took: map[string]time.Duration{}}
	defer t.letGo()
	req, ok, err := m.check(c, r)
	if err != nil || !ok {
		return err
	}
	return (&advancing{t, req}).run(ctx)
}

// run does it all: prepare, the steps, commit; or, from the journal on, undo.
func (t *advancing) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return t.recordRefused(err)
	}
	t.t.m.Host.Log.Info("switching", "from", cmp.Or(t.req.config.Spec.ActiveVersion, "none"), "to", t.req.To.String(),
		"database", string(t.t.j.Database.Plan))
	isProven, err := t.forward(ctx)
	switch {
	case err == nil:
		return nil
	case isProven:
		// From here there is only forward: the next run commits it.
		return &failure.NeedsPersonError{Err: fmt.Errorf("version %s is healthy, but could not be committed: %w; "+
			"the next run tries again, see `teleport-update status`", t.req.To, err)}
	case errors.Is(err, health.ErrHostStopping):
		// Says nothing about the version. The journal stays; the next boot
		// puts the old version back before the agent starts.
		t.t.m.Host.Log.Warn("the host is shutting down in the middle of the transaction; it is undone at the next boot",
			"version", t.req.To.String())
		return errNeedsBoot
	}
	return t.abandon(ctx, err)
}

// forward takes the steps and commits. An error means undo, unless isProven
// says that the version is.
func (t *advancing) forward(ctx context.Context) (isProven bool, err error) {
	d := t.t.doing(t.req)
	for _, s := range steps() {
		began := t.t.m.Now()
		err := stepsForward()[s.name](d, ctx)
		t.addDuration(s, t.t.m.Now().Sub(began))
		if err != nil {
			return false, err
		}
		isProven = s.enters == proven
		if err := t.t.advance(s); err != nil {
			return isProven, err
		}
	}
	return isProven, t.t.finish(context.WithoutCancel(ctx))
}

// addDuration adds what a step took to what the history tells of a transaction: the agent is down
// from its stop to the watch, which begins with its start.
func (t *advancing) addDuration(s step, d time.Duration) {
	part := "downtime"
	switch {
	case s.name == "backup" || s.name == "watch":
		part = s.name
	case !t.t.j.Database.Stop || !t.t.j.Agent.State.Wanted():
		return
	}
	t.t.took[part] += d
}
