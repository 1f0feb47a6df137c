package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

// brokenBefore is a host whose agent of before does not run any more, and whose version of today made a schema.
func brokenBefore(t *testing.T, schema int, f fate) *model {
	return brokenWith(t, schema, behaviour{schema: 1, fate: f})
}

// brokenWith is brokenBefore with an agent of before that may change the tables.
func brokenWith(t *testing.T, schema int, before behaviour) *model {
	t.Helper()
	m := firstEnable(t, holds)
	m.versions["1.1.0"] = behaviour{schema: schema, fate: holds}
	if err, _ := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) }); err != nil {
		t.Fatal(err)
	}
	m.versions["1.0.0"] = before
	m.calls = nil
	return m
}

// calledOff says what is wrong after an uninstall that was called off: all is as it was before, with the rows of the agent.
func (m *model) calledOff() error {
	err := m.closed()
	c, configErr := m.Host.Paths.LoadConfig()
	if configErr != nil || !c.Spec.Enabled {
		err = errors.Join(err, fmt.Errorf("updates are off, %w", configErr))
	}
	if m.main == nil || m.main.version != "1.1.0" {
		err = errors.Join(err, fmt.Errorf("the agent is %+v", m.main))
	}
	if kept := m.keptSchemas(); len(kept) > 0 {
		err = errors.Join(err, fmt.Errorf("backups are kept of a database that is live: %v", kept))
	}
	if lost := m.rowsLost(); len(lost) > 0 {
		err = errors.Join(err, fmt.Errorf("rows %v are lost", lost))
	}
	return err
}

// The version of today is not removed before the agent of before is seen to run: if that is not healthy, today's is back, with its
// database, wherever this is cut off.
func TestAnUninstallIsCalledOffIfTheAgentOfBeforeIsNotHealthy(t *testing.T) {
	some := sampled{every: 13}
	cuts := map[string]outcome{
		"killed before": {before: func(*model) error { panic(killed{}) }},
		"killed after":  {after: func(*model) error { panic(killed{}) }},
		"refused":       {before: func(*model) error { return errors.New("not now") }},
	}
	for _, schemas := range [][2]int{{1, 1}, {2, 1}, {1, 2}} {
		for _, f := range []fate{diesFirst, dies, diesLate} {
			broken := func(t *testing.T) *model { return brokenWith(t, schemas[0], behaviour{schema: schemas[1], fate: f}) }
			name := fmt.Sprintf("schema %d, the agent of before %s with schema %d", schemas[0], f, schemas[1])
			dry := broken(t)
			err, _ := dry.leave(state.Uninstall{})
			if !failure.Is[*failure.RefusedError](err) || !saysAll(err, []string{"is not healthy", "--keep-agent", "version 1.1.0 is in its place again"}) {
				t.Fatalf("%s: it ends with %v", name, err)
			}
			if err := dry.calledOff(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for n, call := range dry.calls {
				for cut, o := range cuts {
					for _, boot := range []bool{false, true} {
						if some.skips() {
							continue
						}
						t.Run(fmt.Sprintf("%s/%s/boot=%v/%d %s", name, cut, boot, n, call), func(t *testing.T) {
							t.Parallel()
							m := broken(t)
							m.meets(n, o)
							m.leave(state.Uninstall{})
							m.dropHooks()
							off := false
							if j, err := load(m.Host.Paths.Journal()); err == nil && j != nil {
								off = j.Verdict.Reason != ""
							}
							if boot {
								if err, _ := m.reboot(); err != nil {
									t.Errorf("the boot ends with %v", err)
								}
								if err := m.sound(); err != nil && off {
									t.Errorf("after the boot: %v", err)
								}
							}
							for range 2 {
								m.tick()
								if err := m.sound(); err != nil {
									t.Errorf("after the next run: %v", err)
								}
							}
							err, _ := m.leave(state.Uninstall{})
							if !failure.Is[*failure.RefusedError](err) {
								t.Errorf("once more, it ends with %v", err)
							}
							if err := m.calledOff(); err != nil {
								t.Error(err)
							}
							m.versions["1.0.0"] = behaviour{schema: schemas[1], fate: holds} // repaired
							if err, _ := m.leave(state.Uninstall{}); err != nil || host.Exists(m.Host.Paths.Versions()) {
								t.Errorf("with the agent of before repaired, it ends with %v", err)
							}
							if err := m.sound(); err != nil {
								t.Error(err)
							}
						})
					}
				}
			}
		}
	}
}

// What nobody wants to run is neither started nor watched, and neither is anything without systemd.
func TestAnUninstallWatchesOnlyAnAgentThatIsToRun(t *testing.T) {
	for name, prepare := range map[string]func(m *model){
		"stopped":         func(m *model) { m.stopUnit() },
		"disabled":        func(m *model) { m.stopUnit(); m.enabled = false },
		"without systemd": func(m *model) { m.ends(); m.booted = false },
	} {
		for _, schema := range []int{1, 2} {
			m := brokenBefore(t, schema, dies)
			prepare(m)
			err, _ := m.leave(state.Uninstall{})
			if err != nil || host.Exists(m.Host.Paths.Versions()) {
				t.Errorf("%s, schema %d: it ends with %v", name, schema, err)
			}
			for _, call := range []string{"start", "restart", "prove"} {
				if slices.Contains(m.calls, call) {
					t.Errorf("%s, schema %d: a %s was asked for: %q", name, schema, call, m.calls)
				}
			}
		}
	}
}

// Others act in the middle of the watch, or did before.
func TestWhatOthersDoToTheAgentOfBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		f       fate
		before  func(m *model)
		watched func(m *model) error
		ends    string // empty: the updater is uninstalled
	}{
		"a person stops it":                 {holds, nil, func(m *model) error { m.stopUnit(); return nil }, ""},
		"today's agent fails, too":          {dies, func(m *model) { m.dies(); m.versions["1.1.0"] = behaviour{schema: 1, fate: dies}; m.crashLoop() }, nil, ""},
		"the version of today is not whole": {dies, func(m *model) { must(m.t, os.Remove(m.Host.Paths.Versions()+"/1.1.0/sha256")) }, nil, ""},
		"the host goes down":                {holds, nil, func(m *model) error { m.down = true; return nil }, "shutting down"},
		"systemd does not answer":           {holds, nil, func(*model) error { return systemd.ErrUnreachable }, systemd.ErrUnreachable.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			m := brokenBefore(t, 1, tc.f)
			if tc.before != nil {
				tc.before(m)
			}
			if tc.watched != nil {
				m.at("watch", func() error { return tc.watched(m) })
			}
			err, _ := m.leave(state.Uninstall{})
			m.dropHooks()
			if tc.ends == "" {
				if err != nil || host.Exists(m.Host.Paths.Versions()) {
					t.Errorf("it ends with %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.ends) || !host.Exists(m.Host.Paths.Journal()) || !host.Exists(m.Host.Paths.Versions()+"/1.1.0") {
				t.Errorf("it ends with %v; the journal is open: %t", err, host.Exists(m.Host.Paths.Journal()))
			}
			if tc.f == holds { // and the next run ends it
				if m.down {
					m.reboot()
				}
				if err, _ := m.tick(); err != nil || host.Exists(m.Host.Paths.Versions()+"/1.1.0") {
					t.Errorf("the next run ends with %v", err)
				}
				if m.main == nil || m.main.version != "1.0.0" {
					t.Errorf("the agent is %+v", m.main)
				}
			}
		})
	}
}

// The database of today goes back once: an updater that is killed after that, with the agent started, takes nothing that the agent
// has written since.
func TestTheDatabaseOfTodayGoesBackOnce(t *testing.T) {
	m := brokenBefore(t, 2, dies)
	m.after = func(call string) error {
		if call == "start" && m.main != nil && m.main.version == "1.1.0" {
			panic(killed{})
		}
		return nil
	}
	m.leave(state.Uninstall{})
	m.dropHooks()
	m.write()
	before := m.readDatabase().rows
	m.tick()
	if now := m.readDatabase().rows; len(before) == 0 || !slices.Equal(now, before) {
		t.Errorf("the rows are %v, and were %v", now, before)
	}
	if err := m.calledOff(); err != nil {
		t.Error(err)
	}
}

// The agent of before goes on with the tables that it has changed. A backup of the tables of today is kept.
func TestADatabaseThatTheAgentOfBeforeChangesIsKept(t *testing.T) {
	m := brokenWith(t, 1, behaviour{schema: 2, fate: holds})
	if err, _ := m.leave(state.Uninstall{}); err != nil || host.Exists(m.Host.Paths.Versions()) {
		t.Fatalf("it ends with %v", err)
	}
	if kept := m.keptSchemas(); len(kept) != 1 || kept[1] != "1.1.0" {
		t.Errorf("kept: %v; want the database of version 1.1.0", kept)
	}
	if m.main == nil || m.main.version != "1.0.0" || m.seen.schema != 2 {
		t.Errorf("the agent is %+v, on schema %d", m.main, m.seen.schema)
	}
}

// An uninstall that was cut off takes the backup when it goes on, with what today's agent has written since, also at a boot.
func TestTheBackupForAChangeOfTablesIsTakenWhenItGoesOn(t *testing.T) {
	goesOn := map[string]func(m *model){
		"in this boot": func(*model) {},
		"at a boot":    func(m *model) { m.reboot() },
		"at a boot before the data are there": func(m *model) {
			proc := filepath.Dir(m.db)
			must(m.t, os.Rename(proc, proc+".away"))
			m.enabled = false // nothing is started before they are there
			m.reboot()
			must(m.t, os.Rename(proc+".away", proc))
			m.enabled = true
			m.launch()
		},
	}
	for name, meanwhile := range goesOn {
		for _, taken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/taken=%v", name, taken), func(t *testing.T) {
				m := brokenWith(t, 1, behaviour{schema: 2, fate: dies})
				inTheWay := m.Host.Paths.KeptBackups()
				if taken {
					m.before = func(string) error {
						if j, err := load(m.Host.Paths.Journal()); err == nil && j != nil && j.Database.Taken {
							panic(killed{})
						}
						return nil
					}
				} else {
					writeFile(t, inTheWay, "a file")
				}
				m.leave(state.Uninstall{})
				m.dropHooks()
				if !taken {
					must(t, os.Remove(inTheWay))
				}
				if m.main == nil || m.main.version != "1.1.0" || !host.Exists(m.Host.Paths.Journal()) {
					t.Fatalf("it was not cut off in between: the agent is %+v", m.main)
				}
				n := len(m.rows) + 1
				m.rows[n] = row{"1.1.0", true}
				m.exec(fmt.Sprintf("INSERT INTO rows VALUES (%d)", n))
				meanwhile(m)
				m.tick()
				if err := m.calledOff(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// What the agent of before wrote into the same tables stays.
func TestRowsOfTheAgentOfBeforeStay(t *testing.T) {
	m := brokenBefore(t, 1, diesLate)
	m.at("watch", func() error {
		n := len(m.rows) + 1
		m.rows[n] = row{"1.0.0", true}
		m.exec(fmt.Sprintf("INSERT INTO rows VALUES (%d)", n))
		return nil
	})
	if err, _ := m.leave(state.Uninstall{}); !failure.Is[*failure.RefusedError](err) {
		t.Errorf("it ends with %v", err)
	}
	m.dropHooks()
	if err := m.calledOff(); err != nil {
		t.Error(err)
	}
}

// The dry run tells of a backup for which there is no room, and the uninstall is refused by it, before anything is changed.
func TestAnUninstallWithoutRoomForABackupIsRefused(t *testing.T) {
	for _, schema := range []int{1, 2} {
		m := brokenBefore(t, schema, holds)
		c, err := m.Host.Paths.LoadConfig()
		must(t, err)
		must(t, os.Truncate(m.db, 1<<40)) // a hole
		_, err = m.CheckUninstall(t.Context(), c, state.Uninstall{}, m)
		left, _ := m.leave(state.Uninstall{})
		for how, err := range map[string]error{"the dry run": err, "the uninstall": left} {
			if err == nil || !saysAll(err, []string{"not enough space", "nothing was changed", "free some space"}) {
				t.Errorf("schema %d: %s ends with %v", schema, how, err)
			}
		}
		if host.Exists(m.Host.Paths.Journal()) || m.main == nil || m.main.version != "1.1.0" {
			t.Errorf("schema %d: something was changed: the agent is %+v", schema, m.main)
		}
		must(t, os.Truncate(m.db, 0)) // the disk of the test is another's, too
	}
}

// Who does not want to repair the agent of before keeps today's, as the refusal says.
func TestAfterAnUninstallThatWasCalledOffTheAgentCanBeKept(t *testing.T) {
	for _, schemas := range [][2]int{{1, 1}, {2, 1}, {1, 2}} {
		m := brokenWith(t, schemas[0], behaviour{schema: schemas[1], fate: dies})
		if err, _ := m.leave(state.Uninstall{}); !failure.Is[*failure.RefusedError](err) {
			t.Fatalf("%v: it ends with %v", schemas, err)
		}
		if err, _ := m.leave(state.Uninstall{KeepAgent: true}); err != nil || host.Exists(m.Host.Paths.Versions()) {
			t.Errorf("%v: --keep-agent ends with %v", schemas, err)
		}
		if m.main == nil || m.main.version != "1.1.0" {
			t.Errorf("%v: the agent is %+v", schemas, m.main)
		}
	}
}
