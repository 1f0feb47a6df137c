package installer

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/backup"
	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// nothingToDo makes the host one whose agent runs the version that is wanted, and counts the looks at it.
func nothingToDo(t *testing.T, w *world, looked *int) {
	t.Helper()
	w.Machine.Host.Program = "/proc/self/exe"
	whole(t, w.Installer, version.Release{Version: "1.1.0", Edition: version.OSS}, version.Release{Version: "1.0.0", Edition: version.OSS})
	c := configOf(t, w.Installer)
	c.Spec.Proxy, c.Spec.Enabled, c.Spec.ActiveVersion = w.url, true, "1.1.0"
	c.Status = state.Status{ActiveEdition: version.OSS, ActiveSchema: "noted", PreviousVersion: "1.0.0", PreviousEdition: version.OSS}
	must(t, c.Save(w.Machine.Host.Paths.Config()))
	connect := sightOf(w.Installer, func(*systemd.Unit, *string) {})
	w.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
		a, err := connect(ctx)
		return looks{a.(seen), looked}, err
	}
	must(t, w.Update(t.Context(), UpdateOptions{})) // which puts right what the test has left out
	*looked = 0
}

// If another program is behind the agent's link, and a transaction lost its journal, two checks need the schema of the agent's
// database, and both need the agent.
func TestAVerbThatTellsReadsAHostWithAnotherProgramOnce(t *testing.T) {
	for name, verb := range map[string]func(context.Context, *world) error{
		"status": func(ctx context.Context, w *world) error {
			_, err := w.Status(ctx, StatusOptions{})
			return err
		},
		"verify": func(ctx context.Context, w *world) error {
			_, err := w.Verify(ctx)
			return err
		},
		"what each command ends with": func(ctx context.Context, w *world) error {
			w.seen = nil // of another program's run
			w.Settle(ctx, "status")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, looked := newWorld(t), 0
			nothingToDo(t, w, &looked)
			database := filepath.Join(w.Machine.Host.Paths.DataDir, "proc", "sqlite.db")
			onAnotherProgram(t, w, database)
			once := opens(t, database, func() {
				_, err := w.Machine.Schema(t.Context())
				must(t, err)
			})
			opened := opens(t, database, func() { must(t, verb(t.Context(), w)) })
			if looked != 1 || opened != once {
				t.Errorf("the agent is looked at %d times, want 1; the database is opened %d times, want %d", looked, opened, once)
			}
			r, err := w.Status(t.Context(), StatusOptions{})
			must(t, err)
			for _, c := range []decision.Type{decision.RecordsBroken, decision.LinksBroken} { // both checks did ask
				if !slices.ContainsFunc(r.Conditions, func(found decision.Condition) bool { return found.Type == c }) {
					t.Errorf("the host has no condition %s: %+v", c, r.Conditions)
				}
			}
		})
	}
}

// onAnotherProgram has somebody put another program in the place of the agent's link, which changed the database after a backup
// that no outcome names.
func onAnotherProgram(t *testing.T, w *world, database string) {
	t.Helper()
	link := filepath.Join(w.Machine.Host.Paths.LinkDir, "teleport")
	must(t, os.Remove(link))
	writeFile(t, link, "#!/bin/sh\necho Teleport v1.5.0 git:v1.5.0-0 go1.22\n")
	must(t, os.Chmod(link, 0o755))
	connect := w.Machine.Connect
	w.Machine.Connect = func(ctx context.Context) (transaction.Agent, error) {
		a, err := connect(ctx)
		l := a.(looks)
		l.sight.Main.Exe = link
		return l, err
	}
	loseJournal(t, w.Installer, database, w.clock)
}

// loseJournal leaves a host as a transaction leaves it whose journal somebody removed: a backup that no outcome names, and a database
// that was changed since.
func loseJournal(t *testing.T, i *Installer, database string, now time.Time) {
	t.Helper()
	tree, ok, err := i.Machine.Active(configOf(t, i))
	if err != nil || !ok {
		t.Fatal("no version is active", err)
	}
	makeDatabase(t, database)
	db, err := backup.Open(database)
	must(t, err)
	defer db.Close()
	_, err = db.Take(t.Context(), backup.TakeRequest{Dir: tree.BackupDir(),
		Meta: backup.Meta{Proxy: "proxy", Version: tree.Release.Version, Edition: tree.Release.Edition, Created: now}})
	must(t, err)
	c, err := sqlite3.Open(database)
	must(t, err)
	must(t, c.Exec("CREATE TABLE migrated (n INTEGER)"))
	must(t, c.Close())
}
