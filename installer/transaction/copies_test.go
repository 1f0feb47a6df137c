package transaction

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/state"
)

// Somebody puts back a copy of the updater's records that was made in the middle of a transaction. The
// host has moved on since: its agent runs on, with every row that it wrote, and the copy of the journal
// is kept aside.
func TestACopyOfAnOpenTransactionMovesNothingOnAHostThatMovedOn(t *testing.T) {
	for _, boot := range []bool{false, true} {
		for _, recorded := range []bool{false, true} { // whether the records know the version that runs
			t.Run(fmt.Sprintf("boot=%v, recorded=%v", boot, recorded), func(t *testing.T) {
				m := killedInMidWatch(t, holds)
				records, kept := m.Host.Paths.Versions(), filepath.Join(t.TempDir(), "copy")
				// Programs are elsewhere on a host, and no part of the copy.
				copied := func(from, to string) {
					t.Helper()
					for _, name := range []string{"journal.json", "updates.yaml", "1.0.0/backup"} {
						must(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755))
						must(t, os.RemoveAll(filepath.Join(to, name)))
						if out, err := exec.Command("cp", "-a", filepath.Join(from, name), filepath.Join(to, name)).CombinedOutput(); err != nil {
							t.Fatalf("%v: %s", err, out)
						}
					}
				}
				copied(records, kept)
				// The backup of the copy is younger than the outcome in its updates.yaml.
				c, err := state.LoadConfig(filepath.Join(kept, "updates.yaml"))
				must(t, err)
				c.Status.LastUpdate.Time = m.Now().Add(-time.Hour)
				must(t, c.Save(filepath.Join(kept, "updates.yaml")))
				if err, _ := m.tick(); err != nil {
					t.Fatal(err)
				}
				m.versions["1.5.0"] = behaviour{schema: 3, fate: holds}
				m.from = m.to
				m.to.Version = "1.5.0"
				m.release("1.5.0")
				must(t, m.do(Update))
				m.write()
				wrote := len(m.rows)

				m.release("1.0.0")
				copied(kept, records)
				if !recorded {
					must(t, os.Remove(filepath.Join(records, "1.5.0", "sha256")))
				}
				if boot {
					m.reboot()
					m.reboot() // by when no journal is there any more
				}
				if err, _ := m.tick(); err != nil {
					t.Error(err)
				}
				if err := m.sound(); err != nil {
					t.Error(err)
				}
				if got, _ := m.program(); got != "1.5.0" || !slices.Contains(m.seen.rows, wrote) || m.seen.schema != 3 {
					t.Errorf("the host is on %s, on schema %d with rows %v; want 1.5.0, 3 and row %d; calls: %q", got, m.seen.schema, m.seen.rows, wrote, m.calls)
				}
				if aside, _ := filepath.Glob(m.Host.Paths.Journal() + ".outdated-*"); len(aside) != 1 {
					t.Errorf("the journal is kept as %v", aside)
				}
				// The copied transaction has an outcome, so that no later run tells it again by its backup.
				copy, err := load(filepath.Join(kept, "journal.json"))
				must(t, err)
				c, err = m.Host.Paths.LoadConfig()
				must(t, err)
				last := c.Status.LastUpdate
				if last == nil || last.Transaction != copy.ID || last.Result != state.Interrupt || last.Target != copy.To.Version ||
					!strings.Contains(last.Error, "was put back") {
					t.Errorf("updates.yaml says of the copied transaction %s to %s: %+v", copy.ID, copy.To.Version, last)
				}
			})
		}
	}
}

// A link of a third version alone, in the way of an open transaction, is no host that moved on: it goes back
// with unit and database.
func TestALinkOfAThirdVersionIsNoHostThatMovedOn(t *testing.T) {
	for _, boot := range []bool{false, true} {
		m := killedInMidWatch(t, diesLate)
		m.versions["1.5.0"] = behaviour{schema: 3, fate: holds}
		m.release("1.5.0")
		link := filepath.Join(m.Host.Paths.LinkDir, "teleport")
		must(t, os.Remove(link))
		must(t, os.Symlink(filepath.Join(m.Host.Paths.Versions(), "1.5.0", "bin", "teleport"), link))
		if boot {
			m.reboot()
		}
		m.tick()
		if _, err := m.tick(); err {
			t.Fatal("killed")
		}
		m.endsOn("1.0.0")
	}
}

// All of the data folder is put back from a copy that was made in the middle of a transaction: the folder
// of the database is another one, and nothing is done in it before a person says that it is the agent's.
func TestACopyOfTheWholeDataFolderGoesBackOnceAPersonSaysSo(t *testing.T) {
	t.Setenv("TMPDIR", "/var/tmp") // a tmpfs has no number
	m := killedInMidWatch(t, diesLate)
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	c.Status.LastUpdate.Time = m.Now().Add(-time.Hour)
	must(t, c.Save(m.Host.Paths.Config()))
	m.ends()
	proc := filepath.Dir(m.db)
	if out, err := exec.Command("sh", "-ec", `cp -a "$1" "$1.copy"; rm -r "$1"; mv "$1.copy" "$1"`, "sh", proc).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m.reboot()
	err, _ = m.tick()
	if err == nil {
		t.Skip("the folder has its number again")
	}
	m.needsPerson(err, "remove "+m.Host.Paths.Journal())
	must(t, os.Remove(m.Host.Paths.Journal()))
	if err, _ := m.tick(); err != nil {
		t.Error(err)
	}
	m.endsOn("1.0.0")
}
