package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// migrated is a host whose agent of before was installed by hand, and is replaced by a version
// that migrated its database.
func migrated(t *testing.T) *model {
	t.Helper()
	m := firstEnable(t, holds)
	if err, _ := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) }); err != nil {
		t.Fatal(err)
	}
	if m.seen.schema != 2 {
		t.Fatalf("the database has schema %d", m.seen.schema)
	}
	m.calls = nil
	return m
}

func (m *model) leave(u state.Uninstall) (error, bool) {
	return m.runs(func() error { return m.Do(m.t.Context(), Order{Uninstall: &u}) })
}

// keptSchemas are those of the backups that outlive the updater, by their folders.
func (m *model) keptSchemas() map[int]string {
	m.t.Helper()
	kept := map[int]string{}
	dirs, _ := filepath.Glob(filepath.Join(m.Host.Paths.KeptBackups(), "*"))
	for _, dir := range dirs {
		live := m.db
		m.db = filepath.Join(dir, backup.FileName)
		kept[m.readDatabase().schema] = filepath.Base(dir)
		m.db = live
	}
	return kept
}

// left says what is wrong after an uninstall that is over: the agent of before runs on a
// database that it can read, and the one of the version that was left is kept.
func (m *model) leftToBefore() error {
	if host.Exists(m.Host.Paths.Versions()) {
		return errors.New("the store is still there")
	}
	if info, err := os.Lstat(filepath.Join(m.Host.Paths.LinkDir, "teleport")); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("what was installed by hand is %v, %w", info, err)
	}
	kept := m.keptSchemas()
	if kept[2] != "1.1.0" || len(kept) != 1 {
		return fmt.Errorf("the database of the version that was left is not kept: %v", kept)
	}
	return m.sound()
}

func TestAnUninstallAfterAMigrationGoesBackToTheDatabaseOfBefore(t *testing.T) {
	m := migrated(t)
	if err, _ := m.leave(state.Uninstall{}); err != nil {
		t.Fatal(err)
	}
	if err := m.leftToBefore(); err != nil {
		t.Error(err)
	}
}

// Whatever cuts it off, and wherever: an agent runs on its own database after the next run, and
// the uninstall ends.
func TestAnUninstallAfterAMigrationThatIsCutOff(t *testing.T) {
	some := sampled{every: 13}
	dry := migrated(t)
	dry.leave(state.Uninstall{})
	cuts := map[string]outcome{
		"killed before": {before: func(*model) error { panic(killed{}) }},
		"killed after":  {after: func(*model) error { panic(killed{}) }},
		"refused":       {before: func(*model) error { return errors.New("not now") }},
	}
	for n, call := range dry.calls {
		for name, o := range cuts {
			for _, boot := range []bool{false, true} {
				if some.skips() {
					continue
				}
				t.Run(fmt.Sprintf("%s/boot=%v/%d %s", name, boot, n, call), func(t *testing.T) {
					t.Parallel()
					m := migrated(t)
					m.meets(n, o)
					m.leave(state.Uninstall{})
					m.dropHooks()
					if boot {
						if err, _ := m.reboot(); err != nil {
							t.Errorf("the boot ends with %v", err)
						}
						if err := m.sound(); err != nil {
							t.Errorf("after the boot: %v", err)
						}
					}
					if host.Exists(m.Host.Paths.Versions()) {
						m.tick()
					}
					if err := m.sound(); err != nil {
						t.Errorf("after the next run: %v", err)
					}
					if host.Exists(m.Host.Paths.Versions()) { // it was called off
						if err, _ := m.leave(state.Uninstall{}); err != nil {
							t.Errorf("again, it ends with %v", err)
						}
					}
					if err := m.leftToBefore(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// A continuation backs the database of today up once more, over the first backup. If it cannot, no boot exchanges the database.
func TestABootExchangesNoDatabaseWhoseBackupIsBeingMadeAnew(t *testing.T) {
	dry := migrated(t)
	dry.leave(state.Uninstall{})
	tried := 0
	for n := range dry.calls {
		m := migrated(t)
		m.meets(n, outcome{before: func(*model) error { panic(killed{}) }})
		m.leave(state.Uninstall{})
		m.dropHooks()
		j, err := load(m.Host.Paths.Journal())
		if err != nil || j == nil || j.Phase != uninstalling || j.Database.Plan != state.RestoreDatabase || j.Database.Restored {
			continue
		}
		tried++
		// It was killed after it had noted its backup, which the continuation cannot make anew.
		if err := errors.Join(j.journalTodayKept(), os.MkdirAll(filepath.Dir(j.Uninstall.KeepsIn), 0o700),
			os.RemoveAll(j.Uninstall.KeepsIn), os.WriteFile(j.Uninstall.KeepsIn, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		m.tick()
		if err, _ := m.reboot(); err != nil {
			t.Errorf("call %d: the boot ends with %v", n, err)
		}
		if got := m.readDatabase().schema; got != 2 {
			t.Errorf("call %d: the database has schema %d, and there is no backup of today's", n, got)
		}
	}
	if tried == 0 {
		t.Error("no call was met before the exchange")
	}
}

// No host loses its agent where no backup fits the agent of before.
func TestAnUninstallIsRefusedWhereTheAgentOfBeforeCouldNotRun(t *testing.T) {
	original := func(m *model) string { return filepath.Join(m.Host.Paths.Original(), "backup") }
	for name, spoil := range map[string]func(t *testing.T, m *model){
		"the backup is gone":    func(t *testing.T, m *model) { must(t, os.RemoveAll(original(m))) },
		"the backup is damaged": func(t *testing.T, m *model) { must(t, os.Truncate(filepath.Join(original(m), backup.FileName), 4096)) },
		"the backup is too old": func(_ *testing.T, m *model) { m.Now = func() time.Time { return noon.Add(90 * 24 * time.Hour) } },
	} {
		t.Run(name, func(t *testing.T) {
			m := migrated(t)
			spoil(t, m)
			err, _ := m.leave(state.Uninstall{})
			if !failure.Is[*failure.RefusedError](err) || !strings.Contains(err.Error(), "--keep-agent") {
				t.Errorf("it ends with %v; want a refusal that names the way out", err)
			}
			if err := m.closed(); err != nil {
				t.Error(err)
			}
			if c, err := m.Host.Paths.LoadConfig(); err != nil || !c.Spec.Enabled {
				t.Errorf("updates are off, %v", err)
			}
		})
	}
}

// What an agent of another schema could start with is kept, whatever the agent of after is.
func TestAnUninstallKeepsTheOnlyBackupOfASchema(t *testing.T) {
	m := migrated(t)
	if err, _ := m.leave(state.Uninstall{KeepAgent: true}); err != nil {
		t.Fatal(err)
	}
	if kept := m.keptSchemas(); len(kept) != 1 || kept[1] != "before-enable" || host.Exists(m.Host.Paths.Versions()) {
		t.Errorf("kept: %v; want the database of before", kept)
	}
	if m.main == nil || m.seen.schema != 2 {
		t.Errorf("the agent is %+v, on schema %d", m.main, m.seen.schema)
	}
}

func TestAnUninstallKeepsNoBackupWhoseSchemaIsLive(t *testing.T) {
	m := firstEnable(t, holds)
	m.versions["1.1.0"] = one
	if err, _ := m.runs(func() error { return m.transact(t.Context(), m.firstRequest()) }); err != nil {
		t.Fatal(err)
	}
	rows := len(m.seen.rows)
	if err, _ := m.leave(state.Uninstall{}); err != nil {
		t.Fatal(err)
	}
	if err := m.sound(); err != nil || host.Exists(m.Host.Paths.KeptBackups()) || len(m.seen.rows) < rows {
		t.Errorf("%v; kept: %v; of %d rows %d are left", err, m.keptSchemas(), rows, len(m.seen.rows))
	}
}

// A host that was enabled, left and enabled again has backups of two lives, and the tables of both may be the same.
func TestAnUninstallKeepsTheNewestBackupOfASchema(t *testing.T) {
	for name, tc := range map[string]struct {
		kept func(b *backup.Meta) // what there is already, beside the backup of the store
		want bool                 // that one is kept, too
	}{
		"an older one of an earlier uninstall":     {func(b *backup.Meta) { b.Created = b.Created.Add(-time.Second) }, true},
		"one of another cluster":                   {func(b *backup.Meta) { b.Proxy, b.Created = "other", b.Created.Add(time.Hour) }, true},
		"the same one, by a move that was cut off": {func(*backup.Meta) {}, false},
		"a newer one, that was moved before":       {func(b *backup.Meta) { b.Created = b.Created.Add(time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := migrated(t)
			store := filepath.Join(m.Host.Paths.Original(), "backup")
			meta, err := backup.MetaOf(store)
			must(t, err)
			newest := meta.Created
			tc.kept(&meta)
			db, err := backup.Open(filepath.Join(store, backup.FileName))
			must(t, err)
			defer db.Close()
			earlier := filepath.Join(m.Host.Paths.KeptBackups(), "before-enable")
			_, err = db.Take(t.Context(), backup.TakeRequest{Dir: earlier, Meta: meta})
			must(t, err)
			if err, _ := m.leave(state.Uninstall{KeepAgent: true}); err != nil {
				t.Fatal(err)
			}
			dirs, _ := filepath.Glob(filepath.Join(m.Host.Paths.KeptBackups(), "*"))
			if len(dirs) != 1 && !tc.want || len(dirs) != 2 && tc.want || !host.Exists(earlier) {
				t.Fatalf("kept: %q", dirs)
			}
			if created, err := backup.Created(dirs[len(dirs)-1]); tc.want && (err != nil || !created.Equal(newest)) {
				t.Errorf("%s was taken at %s, %v; want that of the store, of %s", dirs[1], created, err, newest)
			}
		})
	}
}

// Somebody put another program in the place of the active version, and restarted the agent: the agent of before is not started on
// what that one made of the database, and it is not kept as the active version's.
func TestAnUninstallIsRefusedUnderAProgramOfSomebodyElse(t *testing.T) {
	places := map[string]func(t *testing.T, m *model, link string){
		"a link": func(t *testing.T, m *model, link string) {
			program := filepath.Join(t.TempDir(), "teleport")
			writeFile(t, program, "1.5.0")
			must(t, os.Symlink(program, link))
		},
		"a file": func(t *testing.T, _ *model, link string) { writeFile(t, link, "1.5.0") },
	}
	for name, put := range places {
		for about, prepare := range map[string]func(*testing.T, *model){
			"with a backup":    func(*testing.T, *model) {},
			"without a backup": func(t *testing.T, m *model) { must(t, os.RemoveAll(filepath.Join(m.Host.Paths.Original(), "backup"))) },
			"no table changed": func(_ *testing.T, m *model) { m.versions["1.5.0"] = two(holds) },
		} {
			t.Run(name+", "+about, func(t *testing.T) {
				m := migrated(t)
				m.versions["1.5.0"] = behaviour{schema: 3, fate: holds}
				prepare(t, m)
				link := filepath.Join(m.Host.Paths.LinkDir, "teleport")
				must(t, os.Remove(link))
				put(t, m, link)
				must(t, m.restartUnit())
				serves := m.main
				err, _ := m.leave(state.Uninstall{})
				if about == "no table changed" && name == "a link" {
					if err != nil {
						t.Errorf("it ends with %v", err)
					}
					return
				}
				advice := map[bool]string{true: "`mv ", false: "`teleport-update pin "}[about == "no table changed"]
				if err != nil && !strings.Contains(err.Error(), advice) {
					t.Errorf("%v does not advise %s", err, advice)
				}
				if !failure.Is[*failure.RefusedError](err) || m.main != serves || host.Exists(m.Host.Paths.Journal()) {
					t.Errorf("it ends with %v; the agent is %+v", err, m.main)
				}
				if _, err := os.Stat(m.Host.Paths.KeptBackups()); err == nil {
					t.Errorf("a backup is kept, of %v", m.keptSchemas())
				}
				if about == "no table changed" { // what it advises
					must(t, os.Rename(link, link+".other"))
					if err, _ := m.leave(state.Uninstall{}); err != nil {
						t.Errorf("after the mv it ends with %v", err)
					}
					if err := m.leftToBefore(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}
