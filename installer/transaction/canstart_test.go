package transaction

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// breakConfig makes teleport.yaml one with which no agent starts.
func (m *model) breakConfig()  { writeFile(m.t, m.Host.Paths.AgentConfig, "teleport: [") }
func (m *model) repairConfig() { must(m.t, os.RemoveAll(m.Host.Paths.AgentConfig)) }

// removeUser keeps each start from ending well, as systemd says of a user that is not there.
func (m *model) removeUser() { m.refusesTry = "[Service]" }

// An agent that would not start again is not stopped for the version before: it serves on,
// and that is said, until what is in the way is gone.
func TestAnAgentThatWouldNotStartAgainIsNotStoppedByAnUndoing(t *testing.T) {
	for name, call := range map[string]string{"the old process": "prove", "the new version": "watch"} {
		t.Run(name, func(t *testing.T) {
			m := cutOff("", func(t *testing.T) *model { return upgrade(t, two(neverReady)) }, Update, call, 1, false).make(t)
			m.edit(func(j *state.Journal) {
				j.Phase, j.Verdict = rollingBack, state.Verdict{Reason: "it is not ready", Against: state.AgainstVersion}
			})
			before := m.main.pid
			m.breakConfig()
			for range 3 {
				if err, _ := m.tick(); call == "watch" {
					m.needsPerson(err, "would not start: read the agent's configuration")
					m.edit(func(j *state.Journal) {
						if !strings.Contains(j.Database.InTheWay, "would not start") {
							t.Errorf("for status the journal says %q", j.Database.InTheWay)
						}
					})
				} else if err != nil {
					t.Error(err) // it is undone without a stop
				}
				if m.main == nil || m.main.pid != before {
					t.Fatal("the agent was stopped")
				}
			}
			if err := m.sound(); err != nil {
				t.Error(err)
			}
			m.repairConfig()
			if err, _ := m.tick(); err != nil {
				t.Error(err)
			}
			m.endsOn("1.0.0")
		})
	}
}

// Nor is the process of before, which serves on, stopped for a database that the new version changed: a host without an
// agent is worse than one on a database of another schema. The undoing goes on once the agent would start again.
func TestAnOldProcessThatWouldNotStartAgainServesOn(t *testing.T) {
	for _, tc := range []struct {
		breaks func(*model)
		says   string
	}{
		{(*model).breakConfig, "would not start: read the agent's configuration"},
		{(*model).removeUser, "would not start: systemd tried"},
	} {
		m := upgrade(t, two(dies))
		before, tried := m.main, false
		m.before = func(call string) error {
			if tried && call == "look" { // once the new version has changed the database
				tc.breaks(m)
			}
			tried = tried || call == "prove"
			return nil
		}
		err := m.do(Update)
		m.before = nil
		for range 3 {
			m.needsPerson(err, tc.says)
			if m.main != before {
				t.Fatalf("the agent was stopped; calls %q", m.calls)
			}
			err, _ = m.tick()
		}
		m.dropHooks()
		m.repairConfig()
		m.refusesTry = ""
		if err, _ := m.tick(); err != nil {
			t.Error(err)
		}
		m.endsOn("1.0.0")
	}
}

// Nor is one stopped on the way to a new version: for a restart, or for a downgrade. That
// does not speak against the version.
func TestAnAgentThatWouldNotStartAgainIsNotStoppedByATransaction(t *testing.T) {
	forward := func(t *testing.T) *model { return upgrade(t, twoHolds) }
	back := func(t *testing.T) *model { return downgrade(t, holds) }
	for name, tc := range map[string]struct {
		model   func(t *testing.T) *model
		kind    Kind
		restart bool
		call    string // before which it happens
		nth     int
		breaks  func(*model)
		says    string
	}{
		"before the journal":      {forward, Update, false, "look", 1, (*model).breakConfig, "the agent's database"},
		"before the restart":      {forward, Update, true, "prove", 1, (*model).breakConfig, "is not restarted"},
		"before the downgrade":    {back, Downgrade, false, "look", 3, (*model).breakConfig, "was undone: read the agent's configuration"},
		"its user goes meanwhile": {forward, Update, true, "prove", 1, (*model).removeUser, "status 217, USER"},
		"its user went":           {back, Downgrade, false, "look", 3, (*model).removeUser, "status 217, USER"},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.model(t)
			before, n := m.main.pid, 0
			m.at(tc.call, func() error {
				if n++; n == tc.nth {
					tc.breaks(m)
				}
				return nil
			})
			req := m.request(tc.kind)
			req.Restart = tc.restart
			err, _ := m.runs(func() error { return m.transact(t.Context(), req) })
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it ends with %v; want %q", err, tc.says)
			}
			if n < tc.nth {
				t.Fatalf("there were %d calls of %s", n, tc.call)
			}
			if m.main == nil || m.main.pid != before {
				t.Fatal("the agent was stopped")
			}
			if c, err := m.Host.Paths.LoadConfig(); err != nil || c.Status.Failed != nil {
				t.Errorf("it is held against the version: %+v (%v)", c.Status, err)
			}
			m.dropHooks()
			m.repairConfig()
			m.refusesTry = ""
			m.endsOn(m.from.Version)
		})
	}
}

// Where nothing is in the place of the database that an agent has open, it is not stopped: it
// would not start again on what it serves.
func TestAnAgentWhoseDatabaseIsNowhereIsNotStopped(t *testing.T) {
	for name, tc := range map[string]struct {
		away func(path string) error
		open string
	}{
		"its folder is another": {func(path string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(path)), os.Mkdir(filepath.Dir(path), 0o700))
		}, "sqlite.db (deleted)"},
		"removed": {os.Remove, "sqlite.db (deleted)"},
		"renamed": {func(path string) error { return os.Rename(path, path+".old") }, "sqlite.db.old"},
	} {
		t.Run(name, func(t *testing.T) {
			m := upgrade(t, twoHolds)
			before := m.main.pid
			path, err := m.Host.Database()
			must(t, err)
			must(t, tc.away(path))
			open := "its database is open as " + filepath.Join(filepath.Dir(path), tc.open) + ","
			for _, restart := range []bool{false, true} {
				req := m.request(Update)
				req.Restart = restart
				err, _ = m.runs(func() error { return m.transact(t.Context(), req) })
				if _, refused := errors.AsType[*failure.RefusedError](err); !refused || !strings.Contains(err.Error(), open) {
					t.Errorf("a restart: %v; it ends with %v", restart, err)
				}
			}
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			if err := m.RestartActive(t.Context(), c); err == nil || !strings.Contains(err.Error(), open) {
				t.Errorf("a restart by a person ends with %v", err)
			}
			if m.main == nil || m.main.pid != before {
				t.Fatal("the agent was stopped")
			}
			if c.Status.Failed != nil {
				t.Errorf("it is held against the version: %+v", c.Status)
			}
		})
	}
}

// An agent that is told by its unit to look elsewhere has its database there.
func TestAnAgentWhoseUnitNamesItsDataStartsAgain(t *testing.T) {
	m := upgrade(t, twoHolds)
	path, err := m.Host.Database()
	must(t, err)
	must(t, os.Rename(path, path+".old")) // which is "elsewhere"
	sight, err := m.Look(t.Context())
	must(t, err)
	if err := m.checkStartsAgain(t.Context(), m, sight, ""); err == nil {
		t.Error("it would start on a database that is not there")
	}
	sight.Command = []string{"/usr/local/bin/teleport", "start", "--config=/etc/other.yaml"}
	must(t, m.checkStartsAgain(t.Context(), m, sight, ""))
}

// What the version's own unit keeps from starting is held against the version; what the host lacks is not.
func TestAVersionWhoseUnitWouldNotStartTheAgentFails(t *testing.T) {
	needs := func(m *model) {
		m.ties.Conditions = []systemd.Condition{{Type: "AssertPathExists", Parameter: "/nowhere"}}
	}
	for name, tc := range map[string]struct {
		model   func(t *testing.T) *model
		kind    Kind
		lacks   func(m *model) // from when systemd has read the new unit on
		version bool
		says    string
	}{
		"an update":       {func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, needs, true, "the unit that version 1.1.0 brings would not start the agent again: "},
		"a downgrade":     {func(t *testing.T) *model { return downgrade(t, holds) }, Downgrade, needs, true, "the unit that version 1.0.0 brings would not start the agent again: "},
		"a configuration": {func(t *testing.T) *model { return upgrade(t, twoHolds) }, Update, (*model).breakConfig, false, "was undone: "},
		"the same unit": {func(t *testing.T) *model {
			m := upgrade(t, twoHolds)
			m.sameUnits()
			return m
		}, Update, needs, false, "was undone: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := tc.model(t)
			read := 0
			m.at("daemon-reload", func() error {
				if read++; read == 1 {
					tc.lacks(m)
				} else {
					m.ties = systemd.Ties{}
				}
				return nil
			})
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(tc.kind)) })
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it ends with %v; want %q", err, tc.says)
			}
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			if failed := c.Status.Failed != nil; failed != tc.version {
				t.Errorf("held against the version: %t", failed)
			}
		})
	}
}

// sameUnits gives the new version the unit of the one before.
func (m *model) sameUnits() {
	from, _, err := m.Host.Store.Lookup(m.from)
	must(m.t, err)
	to, _, err := m.Host.Store.Lookup(m.to)
	must(m.t, err)
	text, err := os.ReadFile(from.UnitFile())
	must(m.t, err)
	must(m.t, os.WriteFile(to.UnitFile(), text, 0o644))
}

// The agent that runs has the view of its own start; its unit's later settings keep each version from starting.
func TestAnAgentIsNotStoppedThatWouldNotSeeItsFiles(t *testing.T) {
	for name, hide := range map[string]func(m *model){
		"its configuration": func(m *model) {
			writeFile(m.t, m.Host.Paths.AgentConfig, "teleport: {}")
			m.ties.View.Veils = []systemd.Veil{{Path: m.Host.Paths.AgentConfig, Setting: "ProtectHome=yes"}}
		},
		"its PID file": func(m *model) {
			m.command = []string{"teleport", "start", "--pid-file=/run/teleport.pid"}
			m.ties.View.Veils = []systemd.Veil{{Path: "/", Setting: "ProtectSystem=strict", Of: systemd.Writing},
				{Path: m.Host.Paths.DataDir, Setting: "ReadWritePaths=", Of: systemd.Writing, Lifted: true}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := downgrade(t, holds)
			hide(m)
			before := m.main
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(Downgrade)) })
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "would not start again, for Protect") {
				t.Errorf("it is not refused: %v", err)
			}
			if m.main != before {
				t.Errorf("the agent was stopped; calls %q", m.calls)
			}
		})
	}
}
