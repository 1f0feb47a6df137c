package transaction

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/health/settings"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// killedInMidWatch is a host whose updater was killed while it watched a version.
func killedInMidWatch(t *testing.T, f fate) *model {
	t.Helper()
	m := upgrade(t, two(f))
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	c.Status.LastUpdate = &state.LastUpdate{Time: m.Now(), Target: "1.0.0", Result: state.Succeeded}
	must(t, c.Save(m.Host.Paths.Config()))
	m.cut("watch", 1, false)
	if err, dead := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) }); !dead {
		t.Fatalf("the transaction was not killed: %v", err)
	}
	m.dropHooks()
	return m
}

// What an open transaction needs of its backup is in its record.
func TestABackupIsRestoredWhateverBecomesOfItsRecordBesideIt(t *testing.T) {
	for name, tamper := range map[string]func(t *testing.T, dir string){
		"broken": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "backup.yaml"), []byte("["), 0o600))
		},
		"emptied": func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, "backup.yaml"), 0)) },
		"removed": func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "backup.yaml"))) },
		"for all": func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, "backup.yaml"), 0o666)) },
	} {
		for _, boot := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				m := killedInMidWatch(t, diesLate)
				tamper(t, filepath.Join(m.Host.Paths.Versions(), "1.0.0", "backup"))
				if boot {
					m.reboot()
				}
				if err, _ := m.tick(); err != nil {
					t.Error(err)
				}
				m.endsOn("1.0.0")
			})
		}
	}
}

// Another database in the backup's place is not what the record says.
func TestABackupThatIsAnotherIsNotRestored(t *testing.T) {
	m := killedInMidWatch(t, neverReady)
	dir := filepath.Join(m.Host.Paths.Versions(), "1.0.0", "backup")
	text, err := os.ReadFile(filepath.Join(dir, "sqlite.db"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "sqlite.db"), append(text, make([]byte, 4096)...), 0o600))
	err, _ = m.tick()
	m.needsPerson(err, "the database cannot go back")
	if err := m.sound(); err != nil {
		t.Error(err)
	}
}

// A journal that somebody puts back when another transaction was committed says what to do
// about a host of long ago.
func TestAJournalThatIsPutBackTooLateIsKeptAside(t *testing.T) {
	m := killedInMidWatch(t, holds)
	text, err := os.ReadFile(m.Host.Paths.Journal())
	must(t, err)
	must(t, os.Remove(m.Host.Paths.Journal()))
	before := m.Now
	m.Now = func() time.Time { return before().Add(time.Minute) }
	must(t, m.do(Update))
	m.write()
	m.endsOn("1.1.0")
	for n, boot := range []bool{false, true} {
		m.Now = func() time.Time { return before().Add(time.Duration(n+2) * time.Minute) }
		must(t, os.WriteFile(m.Host.Paths.Journal(), text, 0o600))
		if boot {
			m.reboot()
		}
		if err, _ := m.tick(); err != nil {
			t.Error(err)
		}
		m.endsOn("1.1.0")
	}
	if kept, _ := filepath.Glob(m.Host.Paths.Journal() + ".outdated-*"); len(kept) != 2 {
		t.Errorf("it is kept as %v", kept)
	}
}

// The file may have been changed by people, and by an updater that was killed once the
// version was proven: an open transaction goes on.
func TestAJournalIsNotOutdatedByWhatPeopleDoToUpdatesYAML(t *testing.T) {
	m := killedInMidWatch(t, diesLate)
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	c.Status.LastUpdate = nil
	must(t, c.Save(m.Host.Paths.Config()))
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// Somebody took the program of the version before: it is fetched again, while the new one
// runs on.
func TestAProgramThatIsGoneIsFetchedBeforeItGoesBack(t *testing.T) {
	for name, tamper := range map[string]func(program string) error{
		"cannot be executed": func(p string) error { return os.Chmod(p, 0) },
		"is gone":            os.Remove,
	} {
		for _, boot := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				m := killedInMidWatch(t, neverReady)
				must(t, tamper(filepath.Join(m.Host.Paths.Versions(), "1.0.0", "bin", "teleport")))
				if boot {
					m.reboot()
				}
				m.offline = true
				for range 3 {
					err, _ := m.tick()
					m.needsPerson(err, "no program to execute")
					if err := m.sound(); err != nil {
						t.Fatal(err)
					}
					if d, err := Describe(m.Host.Paths.Journal()); err != nil || !strings.Contains(d.CutOff, "the agent is left as it is") {
						t.Errorf("status says %+v, %v", d, err)
					}
					if m.calls = nil; m.main.version != "1.1.0" {
						t.Errorf("version %s runs", m.main.version)
					}
				}
				m.offline = false
				if err, _ := m.tick(); err != nil {
					t.Error(err)
				}
				m.endsOn("1.0.0")
			})
		}
	}
}

// What others had systemd start instead of the agent is not the version before.
func TestAnotherProgramInTheAgentsPlaceIsNotTheVersionBefore(t *testing.T) {
	m := killedInMidWatch(t, diesLate)
	m.reboot()
	m.main.dir, m.main.version = "/usr", "sleep"
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}

// The watch of an open transaction is what its record says, or shorter.
func TestAWatchIsAsItWasWhenTheTransactionBegan(t *testing.T) {
	const another = "http://127.0.0.1:1/another"
	m := killedInMidWatch(t, holds)
	j, err := load(m.Host.Paths.Journal())
	must(t, err)
	recorded, err := state.ParseConfig(j.Config)
	must(t, err)
	recorded.Spec.Health.Window = state.Duration(time.Minute)
	j.Config, err = recorded.Text()
	must(t, err)
	for now, want := range map[time.Duration]time.Duration{24 * time.Hour: time.Minute, 0: time.Minute, time.Second: time.Second} {
		recorded.Spec.Health = state.HealthSpec{Settings: settings.Settings{Window: state.Duration(now), ReadyURL: another}}
		must(t, recorded.Save(m.Host.Paths.Config()))
		spec, err := (&transaction{m: m.Machine, agent: m, j: j}).healthSpec()
		if err != nil || spec.Window.Std() != want || spec.ReadyURL != readyURL {
			t.Errorf("with %v in the file it is %+v, %v; want %v", now, spec, err, want)
		}
	}
	j.Config = "" // of an older program
	if spec, err := (&transaction{m: m.Machine, agent: m, j: j}).healthSpec(); err != nil || spec.ReadyURL != another {
		t.Errorf("an older program's is %+v, %v", spec, err)
	}
}

// An agent that finds no folder at a boot makes one, and a database with all tables: on
// the same file system it is certain that this is another folder.
func TestAFolderThatAnAgentMadeAnewIsNotTheFirstOne(t *testing.T) {
	t.Setenv("TMPDIR", "/var/tmp") // a tmpfs has no number
	m := killedInMidWatch(t, holds)
	proc := filepath.Dir(m.db)
	j, err := load(m.Host.Paths.Journal())
	must(t, err)
	if j.Database.Folder.FileSystem == "" {
		t.Skip("the file system of /var/tmp has no number")
	}
	m.ends()
	must(t, os.Rename(proc, proc+".away"))
	must(t, os.Mkdir(proc, 0o700))
	m.creates = true
	m.reboot()
	for range 2 {
		err, _ := m.tick()
		m.needsPerson(err, "put the first folder back")
		if v, _ := m.program(); v != "1.1.0" || m.main == nil {
			t.Errorf("version %s is linked, and runs: %v", v, m.main != nil)
		}
	}
	m.ends()
	must(t, os.RemoveAll(proc))
	must(t, os.Rename(proc+".away", proc))
	m.read()
	m.launch()
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
	if host.Exists(m.Host.Paths.Journal()) {
		t.Error(errors.New("the journal is open"))
	}
}

// Others change links and unit when all of it was back already: what starts then has to be
// the version that the database is of.
func TestWhatOthersChangeOnceAllIsBackIsPutBackAgain(t *testing.T) {
	for _, place := range []string{"link", "unit", "folder"} {
		t.Run(place, func(t *testing.T) {
			m := upgrade(t, two(diesLate))
			link := filepath.Join(m.Host.Paths.LinkDir, "teleport")
			m.cut("prove", 2, false)
			if err, dead := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) }); !dead {
				t.Fatalf("the undoing was not killed: %v", err)
			}
			m.dropHooks()
			path := link
			switch place {
			case "unit":
				path = m.Host.Paths.Unit()
				must(t, os.WriteFile(path, []byte("[Service]\n# another\n"), 0o644))
			case "link":
				must(t, os.Remove(path))
				must(t, os.WriteFile(path, []byte("another"), 0o755))
			case "folder":
				must(t, os.Remove(path))
				must(t, os.Mkdir(path, 0o755))
			}
			if j, err := load(m.Host.Paths.Journal()); err != nil || j.Phase != restored {
				t.Fatalf("%+v, %v: this test shows nothing", j, err)
			}
			if err, _ := m.tick(); err != nil {
				t.Error(err)
			}
			m.endsOn("1.0.0")
			if kept, _ := filepath.Glob(path + ".aside-*"); len(kept) != 1 {
				t.Errorf("it is kept as %v", kept)
			}
		})
	}
}

// A journal says nothing any more, and the agent was stopped for the transaction.
func TestAnAgentIsStartedOnceAnUnreadableJournalIsSetAside(t *testing.T) {
	m := upgrade(t, two(diesLate))
	m.cut("prove", 2, false)
	if err, dead := m.runs(func() error { return m.transact(t.Context(), m.request(Update)) }); !dead {
		t.Fatalf("the undoing was not killed: %v", err)
	}
	m.dropHooks()
	if m.main != nil {
		t.Fatal("the agent runs: this test shows nothing")
	}
	must(t, os.Truncate(m.Host.Paths.Journal(), 0))
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
	kept, _ := filepath.Glob(m.Host.Paths.Journal() + ".unreadable-*")
	c, err := m.Host.Paths.LoadConfig()
	if err != nil || len(kept) != 1 || c.Status.LastUpdate == nil || !strings.Contains(c.Status.LastUpdate.Error, kept[0]) {
		t.Errorf("%v: it is kept as %v, and the outcome is %+v", err, kept, c.Status.LastUpdate)
	}
}
