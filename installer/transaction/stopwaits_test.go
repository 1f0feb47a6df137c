package transaction

import (
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// What systemd does not do with the version before says nothing about the next one: a stop that it does not
// begin, or that fails, ends the transaction with the agent as it was, and holds nothing against the
// version.
func TestAStopThatSystemdDoesNotDoIsNotHeldAgainstTheVersion(t *testing.T) {
	for name, job := range map[string]*systemd.JobError{
		"it waits for a unit that stops first": {Verb: systemd.VerbStop, Result: systemd.ResultWaiting, Err: &systemd.BlockedError{By: []string{"sidecar.service"}}},
		"it fails":                             {Verb: systemd.VerbStop, Result: "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, "1.0.0", "0.9.0", map[string]behaviour{"1.0.0": one, "0.9.0": {schema: 1, fate: holds}})
			m.left("0.9.0")
			served := m.main
			m.before = func(call string) error {
				if call == "stop" {
					return job
				}
				return nil
			}
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Downgrade)) })
			if err == nil || m.main != served || host.Exists(m.Host.Paths.Journal()) {
				t.Errorf("it ends with %v, an agent that served on: %v, an open journal: %v", err, m.main == served, host.Exists(m.Host.Paths.Journal()))
			}
			c, err := m.FreshConfig()
			must(t, err)
			if c.Status.Failed != nil || c.Status.LastUpdate == nil || c.Status.LastUpdate.Target != "0.9.0" {
				t.Errorf("failed: %+v, last: %+v", c.Status.Failed, c.Status.LastUpdate)
			}
			m.before = nil
			m.endsOn("1.0.0")
		})
	}
}

// A stop may take for ever by the agent's unit. What begins with one is refused; what takes one only if the version fails
// is possible, and that version is killed.
func TestAStopWithoutAnEndIsNotAskedFor(t *testing.T) {
	for drains, says := range map[time.Duration]string{systemd.Forever: "TimeoutStopSec=infinity", 20 * time.Minute: "TimeoutStopSec=20m0s", time.Minute: ""} {
		m := downgrade(t, holds)
		m.drains = drains
		err := m.do(Downgrade)
		refused := failure.Is[*failure.RefusedError](err) && says != "" && strings.Contains(err.Error(), says)
		if touched := slices.Contains(m.calls, "stop"); touched == (says != "") || refused != (says != "") {
			t.Errorf("%v: it ends with %v after %q", drains, err, m.calls)
		}
		if err := m.closed(); err != nil {
			t.Errorf("%v: %v", drains, err)
		}
	}
	for _, running := range []bool{true, false} {
		m := downgrade(t, holds)
		if m.drains = systemd.Forever; !running {
			m.stopUnit()
		}
		if err := m.do(Downgrade); (err == nil) == running {
			t.Errorf("an agent that runs, %v: %v", running, err)
		}
	}
	m := upgrade(t, two(diesLate))
	m.drains = systemd.Forever
	if err := m.do(Update); err == nil || !slices.Contains(m.calls, "stop") {
		t.Errorf("an update to a version that dies: %v after %q", err, m.calls)
	}
	m.endsOn("1.0.0")
}

func TestOnlyAVersionThatFailedIsKilled(t *testing.T) {
	for _, c := range []struct {
		how   manner
		takes time.Duration
		want  time.Duration
	}{
		{inOrder, systemd.Forever, 0}, {atOnce, systemd.Forever, killAfter}, {atOnce, time.Hour, killAfter}, {atOnce, systemd.JobCap, 0}, {atOnce, time.Second, 0},
	} {
		if got := (Sight{Unit: systemd.Unit{StopTimeout: c.takes}}).stopLimit(c.how); got != c.want {
			t.Errorf("%d, %v: it is killed after %v", c.how, c.takes, got)
		}
	}
}
