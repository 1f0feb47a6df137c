package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// A transaction whose journal somebody removed is told by what it left.
func TestATransactionWithoutAJournalIsToldByItsBackup(t *testing.T) {
	migrated := func(h *databaseHost) {
		c, err := sqlite3.Open(h.path())
		must(t, err)
		must(t, c.Exec("CREATE TABLE migrated (n INTEGER); PRAGMA user_version=2"))
		must(t, c.Close())
	}
	for _, tc := range []struct {
		name string
		last time.Duration // after the backup, the last outcome
		late time.Duration // the backup
		do   func(*databaseHost)
		told bool
	}{
		{name: "the database was changed since", last: -time.Minute, do: migrated, told: true},
		{name: "the switch was the first one", do: migrated, told: true},
		{name: "the database is as it was", last: -time.Minute, do: func(*databaseHost) {}},
		{name: "the switch has an outcome", last: time.Minute, do: migrated},
		{name: "the outcome is of the second of the backup", last: time.Nanosecond, late: time.Second / 2, do: migrated},
		{name: "updates.yaml is an older one, and the history has the outcome", last: -time.Minute, do: func(h *databaseHost) {
			migrated(h)
			history := state.History{}
			must(t, history.Add(state.Ended{Time: noon.Add(-time.Minute), To: version.Release{Version: "1.2.0", Edition: version.OSS}, Result: state.Succeeded}, h.Host.Paths.History()))
		}},
		{name: "the backup was not finished", last: -time.Minute, do: func(h *databaseHost) {
			migrated(h)
			must(t, os.Remove(h.keeps("1.1.0")+"/backup/backup.yaml"))
		}},
		{name: "there is no database any more", last: -time.Minute, do: func(h *databaseHost) { must(t, os.Remove(h.path())) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newDatabaseHost(t)
			h.left("1.1.0", time.Hour-tc.late)
			if tc.last != 0 {
				h.config.Status.LastUpdate = &state.LastUpdate{Time: noon.Add(tc.last - time.Hour), Target: "1.1.0", Result: state.Succeeded}
			}
			tc.do(h)
			err := h.CheckEnded(t.Context(), h.config, h)
			if told := err != nil && strings.Contains(err.Error(), h.path()) && strings.Contains(err.Error(), "its journal is gone"); told != tc.told || err != nil && !told {
				t.Errorf("it says %v; want a word on the transaction: %v", err, tc.told)
			}
		})
	}
}

// updateKilledAt is killedAt for an update.
func (m *model) updateKilledAt(t *testing.T, call int) { m.killedAt(t, Update, call) }

// killedAt kills a change at one of its calls.
func (m *model) killedAt(t *testing.T, kind Kind, call int) {
	m.before = func(string) error {
		if len(m.calls) > call {
			panic(killed{})
		}
		return nil
	}
	m.runs(func() error { return m.transact(t.Context(), m.request(kind)) })
	m.before = nil
}

// Whatever a transaction had done when it was killed, and whoever removes or breaks its journal:
// one run makes the host one version's again, with its database.
func TestATransactionWhoseJournalIsLostIsUndoneOrEnds(t *testing.T) {
	some := sampled{every: 13}
	lose := map[string]func(path string) error{
		"removed":           os.Remove,
		"broken":            func(path string) error { return os.WriteFile(path, []byte("{[ broken"), 0o600) },
		"open to everybody": func(path string) error { return os.Chmod(path, 0o666) },
	}
	for _, f := range []fate{holds, dies, diesLate, neverReady} {
		host := func(t *testing.T) *model {
			return newModel(t, "1.0.0", "2.0.0", map[string]behaviour{"1.0.0": {schema: 1, fate: holds}, "2.0.0": {schema: 2, fate: f}})
		}
		dry := host(t)
		dry.runs(func() error { return dry.transact(t.Context(), dry.request(Update)) })
		for n := range len(dry.calls) {
			for how, lose := range lose {
				for _, boot := range []bool{false, true} {
					if some.skips() {
						continue
					}
					t.Run(fmt.Sprintf("it %s/%d %s/%s/boot=%v", f, n, dry.calls[n], how, boot), func(t *testing.T) {
						t.Parallel()
						m := host(t)
						m.updateKilledAt(t, n)
						journal, _ := os.ReadFile(m.Host.Paths.Journal())
						if err := lose(m.Host.Paths.Journal()); err != nil && !errors.Is(err, os.ErrNotExist) {
							t.Fatal(err)
						}
						if boot {
							m.reboot()
						}
						err, _ := m.tick()
						for n, r := range m.rows {
							// What a version wrote that was never proven may go.
							r.keep = r.keep && (r.by != m.to.Version || m.committedOn(m.to))
							m.rows[n] = r
						}
						if bad := m.closed(); bad != nil {
							t.Fatalf("%v, %v", err, bad)
						}
						if journal == nil {
							return
						}
						// Whoever took it puts it back.
						writeFile(t, m.Host.Paths.Journal(), string(journal))
						must(t, os.Chmod(m.Host.Paths.Journal(), 0o600))
						err, _ = m.tick()
						if bad := m.closed(); bad != nil {
							t.Errorf("the journal is back: %v, %v", err, bad)
						}
					})
				}
			}
		}
	}
}

// Somebody's folder in the place of a helper's link keeps no database from going back: the agent's own link is free.
func TestALostJournalIsWrittenAgainBesideAFolderInTheWay(t *testing.T) {
	host := func(t *testing.T) *model {
		return newModel(t, "1.0.0", "2.0.0", map[string]behaviour{"1.0.0": {schema: 1, fate: holds}, "2.0.0": {schema: 2, fate: dies}})
	}
	dry := host(t)
	dry.runs(func() error { return dry.transact(t.Context(), dry.request(Update)) })
	for n := range len(dry.calls) {
		t.Run(fmt.Sprintf("%d %s", n, dry.calls[n]), func(t *testing.T) {
			t.Parallel()
			m := host(t)
			m.updateKilledAt(t, n)
			tsh := filepath.Join(m.Host.Paths.LinkDir, "tsh")
			for _, path := range []string{m.Host.Paths.Journal(), tsh} {
				if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			must(t, os.Mkdir(tsh, 0o755))
			err, _ := m.tick()
			if bad := m.sound(); bad != nil {
				t.Errorf("%v, %v", err, bad)
			}
			must(t, os.Remove(tsh))
			err, _ = m.tick()
			if bad := m.closed(); bad != nil {
				t.Errorf("the folder is gone: %v, %v", err, bad)
			}
		})
	}
}

// What is told again is written down before the agent is touched: a run that is killed then
// leaves a journal to go by.
func TestATransactionWhoseJournalIsLostHasOneBeforeAnythingIsDone(t *testing.T) {
	some := sampled{every: 7}
	host := func(t *testing.T) *model {
		return newModel(t, "1.0.0", "2.0.0", map[string]behaviour{"1.0.0": {schema: 1, fate: holds}, "2.0.0": {schema: 2, fate: diesLate}})
	}
	dry := host(t)
	dry.runs(func() error { return dry.transact(t.Context(), dry.request(Update)) })
	for n := range len(dry.calls) {
		if some.skips() {
			continue
		}
		t.Run(fmt.Sprintf("%d %s", n, dry.calls[n]), func(t *testing.T) {
			t.Parallel()
			m := host(t)
			m.updateKilledAt(t, n)
			if err := os.Remove(m.Host.Paths.Journal()); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			without := ""
			m.before = func(call string) error {
				j, err := state.LoadJournal(m.Host.Paths.Journal())
				must(t, err)
				if j == nil && call != "look" && without == "" {
					without = call
				}
				if j != nil && without != "" {
					t.Errorf("%s was called before there was a journal", without)
				}
				return nil
			}
			m.tick()
		})
	}
}

// A power cut may leave nothing of both files that a transaction is written down in, wherever it was. The
// recovery at boot has an agent run on its own database all the same; the rest needs the file that a
// person has to put back, or to remove.
func TestATransactionOfWhichNothingIsLeftHasAnAgent(t *testing.T) {
	some := sampled{every: 13}
	for _, f := range []fate{holds, dies, diesLate, neverReady} {
		host := func(t *testing.T) *model {
			return newModel(t, "1.0.0", "2.0.0", map[string]behaviour{"1.0.0": {schema: 1, fate: holds}, "2.0.0": {schema: 2, fate: f}})
		}
		dry := host(t)
		dry.runs(func() error { return dry.transact(t.Context(), dry.request(Update)) })
		for n := range len(dry.calls) {
			if some.skips() {
				continue
			}
			t.Run(fmt.Sprintf("it %s/%d %s", f, n, dry.calls[n]), func(t *testing.T) {
				t.Parallel()
				m := host(t)
				m.updateKilledAt(t, n)
				config, err := os.ReadFile(m.Host.Paths.Config())
				must(t, err)
				must(t, os.WriteFile(m.Host.Paths.Journal(), nil, 0o600))
				must(t, os.WriteFile(m.Host.Paths.Config(), make([]byte, 64), 0o600))
				m.reboot()
				for range 2 {
					if err, _ := m.tick(); err == nil || !strings.Contains(err.Error(), "`teleport-update enable`") {
						t.Errorf("it says %v; want the way out", err)
					}
					if bad := m.sound(); bad != nil {
						t.Fatalf("%v; calls: %q", bad, m.calls)
					}
				}
				// A person has a copy of it, and the rest ends.
				must(t, os.WriteFile(m.Host.Paths.Config(), config, 0o600))
				m.tick()
				for n, r := range m.rows {
					r.keep = r.keep && (r.by != m.to.Version || m.committedOn(m.to))
					m.rows[n] = r
				}
				if err, _ := m.tick(); err != nil {
					t.Error(err)
				}
				if bad := m.closed(); bad != nil {
					t.Error(bad)
				}
			})
		}
	}
}
