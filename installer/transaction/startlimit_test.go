package transaction

import (
	"errors"
	"testing"
)

// A version that crashes until systemd gives it up takes every other start with it, also that
// of the version before, until systemd is told to forget it.
func TestAVersionThatCrashedToTheStartLimitIsUndone(t *testing.T) {
	m := upgrade(t, two(dies))
	reached := false
	m.at("stop", func() error {
		reached = errors.Is(m.startUnit(), errStartLimit)
		return nil
	})
	req := m.request(Update)
	req.Restart = true
	if err, _ := m.runs(func() error { return m.transact(t.Context(), req) }); err == nil || !reached {
		t.Errorf("it ends with %v; the start limit was reached: %t", err, reached)
	}
	m.endsOn("1.0.0")
}

// The host was taken to its rescue mode and back: that is no boot to systemd, which still
// counts, but the recovery before the agent's start runs as at one, and nobody else tells it to
// forget the crashes.
func TestTheRecoveryBeforeTheAgentHasSystemdForgetItsCrashes(t *testing.T) {
	m := upgrade(t, two(dies))
	m.cut("stop", 1, false)
	req := m.request(Update)
	req.Restart = true
	if _, dead := m.runs(func() error { return m.transact(t.Context(), req) }); !dead || !m.atStartLimit() {
		t.Fatalf("killed: %t, after %d crashes", dead, m.crashes)
	}
	m.dropHooks()
	m.stopUnit()
	m.ordered = true
	err, _ := m.runs(func() error { return m.Recover(t.Context(), true) })
	m.ordered = false
	if err != nil {
		t.Error(err)
	}
	if err := m.startUnit(); err != nil {
		t.Errorf("the agent is not started: %v", err)
	}
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}
