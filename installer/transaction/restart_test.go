package transaction

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/health"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// A person's restart starts the linked version. It is refused while a program runs that may have changed the database to one
// that the linked version cannot read.
func TestARestartDoesNotStartAnOlderVersionOnTheDatabaseOfANewerOne(t *testing.T) {
	tree := func(m *model, r version.Release) versions.Tree {
		t.Helper()
		found, ok, err := m.Host.Store.Lookup(r)
		if err != nil || !ok {
			t.Fatalf("version %s: %v", r.Short(), err)
		}
		return found
	}
	for name, tc := range map[string]struct {
		host func() *model
		says string // empty: it is restarted
	}{
		"a newer version": {func() *model {
			m := upgrade(t, twoHolds)
			must(t, m.Host.Repair(tree(m, m.to))) // by another tool
			must(t, m.restartUnit())
			must(t, m.Host.Repair(tree(m, m.from))) // by a snapshot
			return m
		}, "the agent runs version 1.1.0,"},
		"a program that nobody knows": {func() *model {
			m, back := byHand(t, 2)
			must(t, os.Remove(filepath.Join(m.Host.Paths.LinkDir, "teleport")))
			must(t, m.Host.Repair(back))
			return m
		}, "/teleport, which is not a kept version,"},
		"the linked version": {func() *model { return upgrade(t, twoHolds) }, ""},
		"an older version": {func() *model {
			m := upgrade(t, twoHolds)
			must(t, m.Host.Repair(tree(m, m.to)))
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			c.Spec.ActiveVersion = "1.1.0"
			must(t, c.Save(m.Host.Paths.Config()))
			return m
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.host()
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			before := m.main
			err = m.RestartActive(t.Context(), c)
			if tc.says == "" {
				if err != nil || m.main == before || m.main == nil || m.main.version != c.Spec.ActiveVersion {
					t.Errorf("%v; the agent is %+v", err, m.main)
				}
				return
			}
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), tc.says) || m.main != before {
				t.Errorf("it ends with %v; the agent is %+v", err, m.main)
			}
		})
	}
}

// systemd stops the agent for a restart, and may not start it again. The next run starts it, and what went down with it, unless a person
// stopped it.
func TestAnAgentThatARestartLeavesDownIsStarted(t *testing.T) {
	prevented := func(result string) error {
		job := &systemd.JobError{Verb: systemd.VerbRestart, Unit: "teleport.service", Result: result}
		return &health.UnhealthyError{Unit: "teleport.service", Reason: "did not start", Prevented: job}
	}
	for name, tc := range map[string]struct {
		restart func(m *model) error // in the place of a restart that does well
		then    func(m *model)
		runs    bool // the agent, once a run of the timer came
		fails   bool // the restart
	}{
		"a unit that it needs fails": {func(m *model) error { m.stopUnit(); return prevented(systemd.ResultDependency) }, nil, true, true},
		"a unit that it needs fails, and a person starts and stops it": {
			func(m *model) error { m.stopUnit(); return prevented(systemd.ResultDependency) },
			func(m *model) { must(t, m.startUnit()); m.stopUnit() }, false, true},
		"a unit that it needs fails, and a person disables it": {
			func(m *model) error { m.stopUnit(); return prevented(systemd.ResultDependency) },
			func(m *model) { m.enabled = false }, false, true},
		"a person stops it in the watch": {func(m *model) error {
			must(t, m.restartUnit())
			m.stopUnit()
			return &health.UnhealthyError{Unit: "teleport.service", Reason: "was stopped", Stopped: true}
		}, nil, false, true},
		"a person stops it in place of its start": {func(m *model) error {
			m.stopUnit()
			return &health.UnhealthyError{Unit: "teleport.service", Reason: "was stopped", Stopped: true}
		}, nil, false, true},
		"systemd does not begin, and a person stops it": {
			func(*model) error { return prevented(systemd.ResultWaiting) }, (*model).stopUnit, false, true},
		"it is healthy":                        {nil, nil, true, false},
		"it is healthy, and a person stops it": {nil, (*model).stopUnit, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, twoHolds).dependentOn()
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			m.before = func(call string) error {
				if call == "prove" && tc.restart != nil {
					return tc.restart(m)
				}
				if call == "prove" {
					m.stopUnit() // some dependencies are passed on with a stop alone
				}
				return nil
			}
			if err := m.RestartActive(t.Context(), c); (err != nil) != tc.fails {
				t.Fatalf("it ends with %v", err)
			}
			if !tc.fails && (!m.others["app.service"] || !nothingStopped(m.Host.Paths)) {
				t.Errorf("the agent is healthy; the units are %v, or a note stays", m.others)
			}
			m.before = nil
			if tc.then != nil {
				tc.then(m)
			}
			err, _ = m.tick()
			if runs := m.main != nil; runs != tc.runs || m.others["app.service"] != tc.runs || err != nil {
				t.Errorf("then %v: the agent runs: %v, and the units are %v", err, runs, m.others)
			}
		})
	}
}

// A restart begins with a stop, which is refused as in a change of version.
func TestARestartOfAnAgentThatCannotBeStoppedIsRefused(t *testing.T) {
	for name, set := range map[string]func(ties *systemd.Ties){
		"SuccessAction=poweroff": func(ties *systemd.Ties) { ties.EndsHost = "SuccessAction=poweroff" },
		"RefuseManualStop=":      func(ties *systemd.Ties) { ties.RefusesStop = true },
	} {
		m := upgrade(t, twoHolds)
		set(&m.ties)
		c, err := m.Host.Paths.LoadConfig()
		must(t, err)
		for _, crashes := range []bool{false, true} {
			if crashes {
				m.dies()
			}
			err = m.RestartActive(t.Context(), c)
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), name) || slices.Contains(m.calls, "prove") {
				t.Errorf("it ends with %v after %q", err, m.calls)
			}
			if check := CheckRestart(t.Context(), m.Machine, c); check == nil {
				t.Errorf("%s: the check beforehand does not refuse it", name)
			}
		}
	}
}
