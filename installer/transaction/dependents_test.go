package transaction

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/systemd"
)

// unitsOf is a systemd that knows some units.
type unitsOf map[string]systemd.Unit

func (m unitsOf) Unit(_ context.Context, name string) (systemd.Unit, error) {
	u := m[name]
	u.Name = name
	return u, nil
}

// What a stop of the agent takes down is found however far it is passed on, each unit once; what is down
// stays down, and what would wait for this transaction is not started by it.
func TestWhatGoesDownWithTheAgentIsFoundHoweverFar(t *testing.T) {
	unit := func(state string, dependents ...string) systemd.Unit {
		return systemd.Unit{ActiveState: state, Ties: systemd.Ties{Dependents: dependents}}
	}
	run := unit("activating")
	run.Type = "oneshot"
	all := unitsOf{
		"forwarder.service": unit("active", "app.service", "app.socket"), "app.service": unit("reloading", "forwarder.service", "far.timer"),
		"app.socket": unit("active"), "far.timer": unit("active"), "ends.service": unit("inactive", "behind.service"), "behind.service": unit("active"),
		"starts.service": unit("activating"), "failed.service": unit("failed"), "stops.service": unit("deactivating"), "run.service": run,
		"teleport-update.service": unit("active"), "teleport-update.timer": unit("active"),
		"teleport-update-switch-x.service": unit("active"), "teleport-updater-metrics.service": unit("active"),
	}
	direct := []string{"forwarder.service", "ends.service", "starts.service", "failed.service", "stops.service", "run.service",
		"teleport-update.service", "teleport-update.timer", "gone.service", "teleport-update-switch-x.service", "teleport-updater-metrics.service"}
	want := []string{"forwarder.service", "starts.service", "teleport-update.timer", "teleport-updater-metrics.service", "app.service", "app.socket", "behind.service", "far.timer"}
	got, err := goesDown(t.Context(), all, systemd.Ties{Dependents: direct})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// requiring gives the host a unit with Requires= on the agent: a start of the unit starts the agent, and fails without it.
func (m *model) requiring() *model {
	m.ties.Dependents = []string{"app.service"}
	m.others = map[string]bool{"app.service": true}
	m.at("start other", func() error {
		if m.main == nil {
			must(m.t, m.startUnit())
		}
		if m.main == nil {
			return errors.New("the job's result is \"dependency\"")
		}
		return nil
	})
	return m
}

// also has somebody act once before a call, beside what is there.
func (m *model) also(before string, act func() error) {
	others, done := m.before, false
	if others == nil {
		others = func(string) error { return nil }
	}
	m.before = func(call string) error {
		if call == before && !done {
			done = true
			if err := act(); err != nil {
				return err
			}
		}
		return others(call)
	}
}

// A start of a unit that needs the agent starts the agent, whoever stopped that. Units stay down with an agent that a person stopped in
// the middle of a change, and so does the agent.
func TestAnAgentThatAPersonStopsIsNotStartedByAUnitThatNeedsIt(t *testing.T) {
	stopped := &health.UnhealthyError{Unit: "teleport.service", Reason: "was stopped", Stopped: true}
	for name, tc := range map[string]struct {
		at   string
		ends error // what the call ends with
	}{
		"before the watch, and the version is committed": {"daemon-reload", nil},
		"in the watch, and the version is undone":        {"prove", stopped},
	} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, twoHolds).requiring()
			m.also(tc.at, func() error { m.stopUnit(); return tc.ends })
			err := m.do(Update)
			if m.main != nil || m.others["app.service"] {
				t.Errorf("%v after %q: the agent runs, or the units are %v", err, m.calls, m.others)
			}
			if _, _ = m.tick(); m.main != nil || m.others["app.service"] || !nothingStopped(m.Host.Paths) {
				t.Errorf("the next run: the agent runs, the units are %v, or a note stays", m.others)
			}
		})
	}
}

// Neither version starts, and units that need the agent fail with it: once a person has put the agent right, they are started.
func TestUnitsOfAFailingAgentAreStartedOnceItRuns(t *testing.T) {
	m := newModel(t, "1.0.0", "0.9.0", map[string]behaviour{"1.0.0": one, "0.9.0": {schema: 1, fate: dies}})
	m.left("0.9.0")
	m.requiring()
	m.after = func(call string) error {
		if call == "stop" {
			m.versions["1.0.0"] = behaviour{schema: 1, fate: dies}
		}
		return nil
	}
	m.do(Downgrade)
	m.after = nil
	for range 3 {
		if err, _ := m.tick(); m.main != nil || m.others["app.service"] || host.Exists(m.Host.Paths.Journal()) {
			t.Fatalf("%v: the agent runs: %v, the units are %v, or the journal stays", err, m.main != nil, m.others)
		}
	}
	m.versions["1.0.0"] = one
	m.resetFailed()
	must(t, m.startUnit())
	if err, _ := m.tick(); err != nil || !m.others["app.service"] || !nothingStopped(m.Host.Paths) {
		t.Errorf("%v: the units are %v, or a note stays", err, m.others)
	}
}

// An agent that is down by a stop of ours is no person's wish: its units wait for it.
func TestUnitsOfAnAgentThatWeStoppedAreNotForgotten(t *testing.T) {
	m := upgrade(t, twoHolds).requiring()
	must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
	must(t, startWentDown(t.Context(), m.Machine, m))
	if m.main != nil || m.others["app.service"] || host.Absent(m.Host.Paths.WentDown()) {
		t.Errorf("the agent runs: %v, the units are %v, or their note is gone", m.main != nil, m.others)
	}
}

// units are other units than the agent's, each of which takes its time to start, or fails.
type units struct {
	Agent
	takes map[string]time.Duration
	fails map[string]bool
	began map[string]time.Time
}

func (u *units) Unit(_ context.Context, name string) (systemd.Unit, error) {
	up := systemd.Unit{Name: name, ActiveState: "inactive"}
	began, asked := u.began[name]
	if asked && !u.fails[name] {
		up.ActiveState = "activating"
		if time.Since(began) >= u.takes[name] {
			up.ActiveState = "active"
		}
	}
	return up, nil
}

// QueueOther fails with a context that has ended, as systemd.Conn does.
func (u *units) QueueOther(ctx context.Context, name string) (func(context.Context) error, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	u.began[name] = time.Now()
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(u.takes[name]):
			if u.fails[name] {
				return errors.New("the job's result is \"failed\"")
			}
			return nil
		}
	}, nil
}

// A unit that takes long to start keeps no other unit down, wherever it stands among them.
func TestAUnitThatStartsSlowlyKeepsNoOtherDown(t *testing.T) {
	for _, order := range []string{"slow quick fails", "quick slow fails", "fails quick slow"} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			m := &Machine{Host: &host.Host{Log: slog.New(slog.NewTextHandler(&log, nil))}}
			u := &units{takes: map[string]time.Duration{"slow": 3 * time.Minute, "quick": time.Second}, fails: map[string]bool{"fails": true},
				began: map[string]time.Time{}}
			before := time.Now()
			still, err := startDown(t.Context(), m, u, strings.Fields(order))
			if took := time.Since(before); err != nil || !slices.Equal(still, []string{"fails"}) || took != dependentsPatience {
				t.Errorf("%s: %v after %s; %q are down", order, err, took, still)
			}
			if len(u.began) != 3 || strings.Count(log.String(), "did not start again") != 1 {
				t.Errorf("%s: systemd was asked for %v, and it is said\n%s", order, u.began, log.String())
			}
		})
	}
}

// An agent that dies while its units start takes them down again: those that are down by then are noted, and no others.
func TestUnitsOfAnAgentThatDiesMeanwhileAreStartedOnceItRuns(t *testing.T) {
	m := upgrade(t, twoHolds).dependentOn()
	m.ties.Dependents = append(m.ties.Dependents, "apart.service")
	m.others["apart.service"] = true
	must(t, noting{m, m.Machine}.Stop(t.Context(), inOrder))
	must(t, m.startUnit())
	m.also("start other", func() error { m.dies(); return errors.New("the job's result is \"dependency\"") })
	m.tick()
	if m.others["app.service"] || host.Absent(m.Host.Paths.WentDown()) {
		t.Fatalf("the units are %v, or their note is gone", m.others)
	}
	m.others["apart.service"] = false // by somebody
	m.dropHooks()
	must(t, m.restartUnit())
	if err, _ := m.tick(); err != nil || !m.others["app.service"] || m.others["apart.service"] || !nothingStopped(m.Host.Paths) {
		t.Errorf("%v: the units are %v, or a note stays", err, m.others)
	}
}
