package transaction

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// forwardAgain is a host on 1.0.0 that goes forward to a version that it has had, with the database
// that this version left. Started on another one, that version migrates it at once.
func forwardAgain(t *testing.T, f fate) *model {
	m := upgrade(t, two(f))
	m.left("1.1.0")
	return m
}

// exchanged reports whether the database is the one that the version to switch to had left.
func (m *model) exchanged() bool { return slices.Contains(m.readDatabase().rows, -1) }

// nth calls do after the nth call of a name, and after each later one as long as always is set.
func (m *model) nth(name string, n int, always bool, do func()) {
	seen := 0
	m.after = func(call string) error {
		if call == name {
			if seen++; seen == n || always && seen > n {
				do()
			}
		}
		return nil
	}
}

// Somebody starts the agent by links that are the new version's, on a database that is the old one's yet, or
// just no more.
func TestAnAgentThatSomebodyStartsInTheSwitchRunsOnItsOwnDatabase(t *testing.T) {
	beforeTheRestore := func(m *model) { m.nth("daemon-reload", 1, false, func() { m.startUnit() }) }
	moments := map[string]func(m *model){
		"before the restore": beforeTheRestore,
		"before the restore, and stops it again": func(m *model) {
			m.nth("daemon-reload", 1, false, func() { m.startUnit(); m.stopUnit() })
		},
		"before the restore, of a host whose agent was down": func(m *model) {
			m.stopUnit()
			beforeTheRestore(m)
		},
		"before the second restore": func(m *model) {
			m.nth("daemon-reload", 1, false, func() {
				m.startUnit()
				m.nth("stop", 1, false, func() { m.startUnit() })
			})
		},
		"once the database is exchanged": func(m *model) {
			m.Now = func() time.Time { // it is asked between two steps
				if m.main == nil && !m.failed && m.exchanged() {
					m.startUnit()
				}
				return testNow()
			}
		},
	}
	for name, tc := range map[string]struct {
		make func(*testing.T) *model
		kind Kind
	}{
		"forward": {func(t *testing.T) *model { return forwardAgain(t, holds) }, Update},
		"back":    {func(t *testing.T) *model { return downgrade(t, holds) }, Downgrade},
	} {
		for moment, somebodyStarts := range moments {
			t.Run(name+"/"+moment, func(t *testing.T) {
				t.Parallel()
				m := tc.make(t)
				somebodyStarts(m)
				must(t, m.do(tc.kind))
				m.dropHooks()
				if m.failed {
					m.crashLoop() // systemd does, after its pause
				}
				for n, r := range m.rows { // those of the old version are in its backup
					r.keep = r.keep && r.by == m.to.Version
					m.rows[n] = r
				}
				m.endsOn(m.to.Version)
				if !m.exchanged() {
					t.Errorf("the database has the rows %v: it is not the one that the version had", m.seen.rows)
				}
			})
		}
	}
}

// Who starts it again after each stop keeps the database from being exchanged. The old version gets its own
// back, as often as it takes, and the new one is not blamed.
func TestAnAgentThatSomebodyStartsAgainAndAgainInTheSwitchGoesBack(t *testing.T) {
	for _, f := range []fate{holds, dies, diesLate} {
		m := forwardAgain(t, f)
		mine := slices.Max(m.seen.rows)
		m.nth("daemon-reload", 1, false, func() {
			m.startUnit()
			m.nth("stop", 1, true, func() {
				if j, err := state.LoadJournal(m.Host.Paths.Journal()); err == nil && j.Phase == switched {
					m.startUnit()
				}
			})
		})
		err := m.do(Update)
		if f != holds {
			// It is not found in use once its process is dead.
			m.dropHooks()
			if err == nil {
				t.Errorf("%s: it is committed", f)
			}
			m.endsOn("1.0.0")
			continue
		}
		if !failure.Is[*failure.RefusedError](err) {
			t.Errorf("%s: it ends with %v; want a refusal", f, err)
		}
		m.dropHooks()
		m.endsOn("1.0.0")
		if !slices.Contains(m.seen.rows, mine) || m.exchanged() {
			t.Errorf("%s: the database has the rows %v", f, m.seen.rows)
		}
		c, err := m.Host.Paths.LoadConfig()
		if err != nil || c.Status.Failed != nil {
			t.Errorf("%s: the version is blamed: %+v, %v", f, c.Status.Failed, err)
		}
	}
}

// Another process that connects after the stop keeps the database from being exchanged, and, if the new version
// was started on it meanwhile, from going back.
func TestAnotherProcessThatConnectsInTheSwitchKeepsThePairWhole(t *testing.T) {
	for name, started := range map[string]bool{"alone": false, "after the new version migrated it": true} {
		t.Run(name, func(t *testing.T) {
			m := forwardAgain(t, holds)
			var end func()
			m.nth("daemon-reload", 1, false, func() {
				if started {
					m.startUnit()
				}
				_, end = m.opens(os.O_RDWR)
			})
			err := m.do(Update)
			m.dropHooks()
			if started {
				m.needsPerson(err, "is open in another process")
				if v, _ := m.program(); v != "1.1.0" {
					t.Errorf("%s is linked", v)
				}
				if err := m.sound(); err != nil {
					t.Error(err)
				}
				end()
				if err, _ := m.tick(); err != nil {
					t.Error(err)
				}
			} else if _, refused := errors.AsType[*failure.RefusedError](err); !refused {
				t.Errorf("it ends with %v; want a refusal", err)
			}
			m.endsOn("1.0.0")
			if host.Exists(m.Host.Paths.Journal()) {
				t.Error("the journal is open")
			}
		})
	}
}

// Somebody starts an agent that was down, and the updater, which has stopped it again, is killed: the agent runs in the end.
func TestAnAgentThatSomebodyStartsInTheSwitchRunsAfterACut(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(*testing.T) *model
		kind Kind
	}{
		"forward": {func(t *testing.T) *model { return forwardAgain(t, holds) }, Update},
		"back":    {func(t *testing.T) *model { return downgrade(t, holds) }, Downgrade},
	} {
		changes := func(t *testing.T, cut int) (m *model, started int) {
			m = tc.make(t)
			m.stopUnit()
			started, calls := -1, 0
			m.after = func(call string) error {
				if calls++; call == "daemon-reload" && started < 0 {
					started = calls
					return m.startUnit()
				}
				if started >= 0 && calls == cut {
					panic(killed{})
				}
				return nil
			}
			m.do(tc.kind)
			m.dropHooks()
			return m, started
		}
		dry, started := changes(t, -1)
		for n := started + 1; n <= len(dry.calls); n++ {
			t.Run(fmt.Sprintf("%s/after %d %s", name, n, dry.calls[n-1]), func(t *testing.T) {
				m, _ := changes(t, n)
				m.tick()
				if m.main == nil {
					t.Errorf("no agent runs: %q", m.calls)
				}
				if err := m.sound(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
