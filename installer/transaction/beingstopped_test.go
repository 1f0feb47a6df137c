package transaction

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// directions are an update and a downgrade, which stops the agent.
func directions(t *testing.T) map[string]*model {
	up, down := upgrade(t, twoHolds), downgrade(t, holds)
	return map[string]*model{"update": up, "downgrade": down}
}

func kindOf(direction string) Kind {
	if direction == "downgrade" {
		return Downgrade
	}
	return Update
}

// Somebody stops the agent, which drains its sessions: a change waits until it is down, and begins then with an
// agent that was stopped.
func TestAStopThatGoesOnIsNobodysToTakeBack(t *testing.T) {
	for name, m := range directions(t) {
		t.Run(name, func(t *testing.T) {
			m.ending = true
			before := m.main
			err := m.do(kindOf(name))
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "teleport.service is being stopped") {
				t.Errorf("it ends with %v", err)
			}
			touched := slices.ContainsFunc(m.calls, func(c string) bool { return c != "look" && c != "stopping" })
			if m.main != before || !m.ending || touched || host.Exists(m.Host.Paths.Journal()) || len(m.wrong) > 0 {
				t.Errorf("something was changed: %q, %q", m.calls, m.wrong)
			}
			m.down = true
			if err := m.do(kindOf(name)); !errors.Is(err, health.ErrHostStopping) {
				t.Errorf("while the host stops, it ends with %v", err)
			}
			m.down = false
			m.stopUnit()
			if err := m.do(kindOf(name)); err != nil || m.main != nil || !m.committedOn(m.to) || len(m.wrong) > 0 {
				t.Errorf("once it is down: %v, %+v, %q", err, m.main, m.wrong)
			}
		})
	}
}

// A stop that somebody asks for once an update has begun stays the last word, too.
func TestAnAgentThatIsStoppedInAnUpdateStaysDown(t *testing.T) {
	m := upgrade(t, twoHolds)
	m.at("daemon-reload", func() error { m.ending = true; return nil })
	if err := m.do(Update); err != nil || !m.ending || !m.committedOn(m.to) || len(m.wrong) > 0 {
		t.Errorf("%v after %q: %q", err, m.calls, m.wrong)
	}
	if slices.Contains(m.calls, "prove") || m.main == nil {
		t.Errorf("it was not left alone: %q", m.calls)
	}
	m.stopUnit()
	m.tick()
	if m.main != nil {
		t.Error("it was started")
	}
}

// An agent whose stop leaves it as failed was stopped all the same.
func TestAnAgentThatFailedByItsStopStaysDown(t *testing.T) {
	for name, m := range directions(t) {
		t.Run(name, func(t *testing.T) {
			m.stopUnit()
			m.badStops = true
			if s := m.sight(); s.State != state.AgentStopped {
				t.Fatalf("the agent is %s", s.State)
			}
			if err := m.do(kindOf(name)); err != nil || m.main != nil || !m.committedOn(m.to) {
				t.Errorf("%v after %q: %+v", err, m.calls, m.main)
			}
		})
	}
}
