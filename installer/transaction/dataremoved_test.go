package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Commands of the unit's remove the folder of the database whenever the agent ends, and an agent makes another.
func TestAVersionThatFailsOnDataThatGoWithTheStopIsUndone(t *testing.T) {
	for name, again := range map[string]bool{"the folder is gone": false, "another folder is there": true} {
		for _, fate := range []fate{diesFirst, dies, diesLate, neverReady} {
			t.Run(name+", and the new version "+string(fate), func(t *testing.T) {
				m := upgrade(t, two(fate))
				m.creates, m.ties.Commands = true, true
				m.removesData(again)
				if err := m.do(Update); err == nil {
					t.Error("it succeeds")
				}
				m.endsOn("1.0.0")
			})
		}
	}
}

// Without such commands somebody else removed the folder, and the agent is not put back without its data.
func TestAVersionIsNotUndoneWithoutDataThatSomebodyRemoved(t *testing.T) {
	m := upgrade(t, two(diesLate))
	m.creates = true
	m.removesData(false)
	if err := m.do(Update); err == nil {
		t.Error("it succeeds")
	}
	if v, _ := m.program(); v != "1.1.0" {
		t.Errorf("version %s is linked", v)
	}
}

// removesData removes the folder of the database with each end of the agent. It is there again before an agent starts.
func (m *model) removesData(again bool) {
	proc := filepath.Dir(m.db)
	ran := m.main != nil
	m.before = func(call string) error {
		runs := m.main != nil
		if !runs && (ran || m.failed) {
			must(m.t, os.RemoveAll(proc))
			clear(m.rows) // they are not meant to last
		}
		ran = runs
		if again || call == "prove" || call == "start" || call == "restart" {
			if err := os.Mkdir(proc, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		}
		m.seen, m.stamp = m.readDatabase(), m.stampOf()
		return nil
	}
}

// The updater is killed once the version has failed, or later, and the agent's next process makes the folder again: the next run
// knows from the record that there is nothing to restore.
func TestAnUndoingOnDataThatGoWithTheStopIsCutOff(t *testing.T) {
	failing := func(t *testing.T) *model {
		m := upgrade(t, two(diesLate))
		m.creates, m.ties.Commands = true, true
		m.removesData(false)
		return m
	}
	dry := failing(t)
	dry.do(Update)
	for n, call := range dry.calls {
		if n <= slices.Index(dry.calls, "watch") { // the look in the middle of the watch ends before the watch does
			continue
		}
		t.Run(fmt.Sprintf("after %d %s", n, call), func(t *testing.T) {
			m := failing(t)
			calls := 0
			m.after = func(string) error {
				if calls++; calls == n+1 {
					panic(killed{})
				}
				return nil
			}
			m.runs(func() error { return m.transact(t.Context(), m.request(Update)) })
			m.after = nil
			m.tick()
			m.tick()
			m.endsOn("1.0.0")
		})
	}
}
