package transaction

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

// unmounted is a host whose agent is down, and whose database is on a file system that is not mounted.
func unmounted(t *testing.T, from, to string) (m *model, mount func()) {
	t.Helper()
	m = newModel(t, from, to, map[string]behaviour{"1.0.0": one, "1.1.0": twoHolds})
	m.creates = true
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	m.RecordSchema(t.Context(), &c)
	m.left(from) // in the past
	must(t, new(state.History).Add(state.Ended{Time: noon, To: m.from, Result: state.Succeeded}, m.Host.Paths.History()))
	m.left(to)
	m.stopUnit()
	proc := filepath.Dir(m.db)
	must(t, os.Rename(proc, proc+".disk"))
	must(t, os.Mkdir(proc, 0o700))
	m.seen, m.stamp = m.readDatabase(), m.stampOf()
	return m, func() {
		must(t, os.RemoveAll(proc))
		must(t, os.Rename(proc+".disk", proc))
		m.seen, m.stamp = m.readDatabase(), m.stampOf()
	}
}

// kinds are the changes from one version to another, each with what has it made without the database.
var kinds = []struct {
	kind     Kind
	from, to string
	insist   func(*Request)
	command  string
}{
	{Update, "1.0.0", "1.1.0", func(r *Request) { r.SkipBackup = true }, "update --now --skip-backup"},
	{Downgrade, "1.1.0", "1.0.0", func(r *Request) { r.SkipBackup = true }, "update --now --skip-backup"},
	{Rollback, "1.1.0", "1.0.0", func(r *Request) { r.Force = true }, "rollback 1.0.0 --force"},
	{Pin, "1.0.0", "1.1.0", func(r *Request) { r.Force = true }, "pin 1.1.0 --allow-downgrade"},
	{Pin, "1.1.0", "1.0.0", func(r *Request) { r.Force = true }, "pin 1.0.0 --allow-downgrade"},
	{Enable, "1.0.0", "1.1.0", func(r *Request) { r.Force = true }, "enable --allow-downgrade"},
}

// The database of an agent that is down may be on a file system that is not mounted: no version is put on a host without the
// database that the agent had.
func TestAChangeWaitsForADatabaseThatIsMissing(t *testing.T) {
	for _, tc := range kinds {
		t.Run(string(tc.kind)+" to "+tc.to, func(t *testing.T) {
			m, mount := unmounted(t, tc.from, tc.to)
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(tc.kind)) })
			if !failure.Is[*failure.RefusedError](err) {
				t.Fatalf("it ends with %v; want it refused", err)
			}
			for _, says := range []string{m.db + " is missing", "version " + tc.from + " had one", "mount its file system", "`teleport-update " + tc.command + "`"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
			if v, _ := m.program(); v != tc.from || !m.committedOn(m.from) || host.Exists(m.Host.Paths.Journal()) || host.Exists(m.db) {
				t.Error("something was changed")
			}
			mount()
			must(t, m.startUnit())
			must(t, m.transact(t.Context(), m.request(tc.kind)))
			if err := m.sound(); err != nil {
				t.Error(err)
			}
			back := version.Compare(tc.to, tc.from) < 0
			if restored := m.seen.rows[0] == -1; back && !restored {
				t.Errorf("the database that %s had is not back: %+v", tc.to, m.seen)
			}
		})
	}
}

// Who removed the database on purpose goes on: by a start of the agent, which makes another one, or by the command that the refusal
// names. What was backed up in the past is not what the version is left with.
func TestADatabaseThatWasRemovedOnPurposeStopsNobody(t *testing.T) {
	for _, tc := range kinds {
		t.Run(string(tc.kind)+" to "+tc.to, func(t *testing.T) {
			m, _ := unmounted(t, tc.from, tc.to)
			r := m.request(tc.kind)
			tc.insist(&r)
			err, _ := m.runs(func() error { return m.transact(t.Context(), r) })
			must(t, err)
			if !m.committedOn(m.to) {
				t.Errorf("version %s is not active", tc.to)
			}
			left := filepath.Join(m.Host.Paths.Versions(), tc.from, "backup")
			want := backup.Want{Proxy: "proxy", Version: tc.from, Edition: version.OSS, Now: noon}
			if err := backup.Check(t.Context(), left, want); !failure.Is[*backup.InvalidError](err) {
				t.Errorf("the backup of the past is what %s is left with: %v", tc.from, err)
			}
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			if c.Status.ActiveSchema != "" {
				t.Errorf("the next change is refused, too, for a database with schema %s", c.Status.ActiveSchema)
			}
			must(t, m.startUnit())
			if m.main == nil || m.main.version != tc.to {
				t.Errorf("the agent is %+v", m.main)
			}
		})
		t.Run(string(tc.kind)+" to "+tc.to+", the agent is started", func(t *testing.T) {
			m, _ := unmounted(t, tc.from, tc.to)
			must(t, m.startUnit())
			err, _ := m.runs(func() error { return m.transact(t.Context(), m.request(tc.kind)) })
			must(t, err)
			if err := m.sound(); err != nil {
				t.Error(err)
			}
		})
	}
}

// An agent that never had a database, and one whose data go with each stop, need none.
func TestADatabaseThatNeverWasIsNotMissing(t *testing.T) {
	ask := func(h *databaseHost, s Sight) error {
		return databaseThere(&Preflight{Sight: s, config: h.config, Database: state.Database{Absent: true, Path: h.path()}}, context.Background())
	}
	h := newDatabaseHost(t)
	must(t, ask(h, Sight{}))
	h.config.Status.ActiveSchema = "1-2345"
	if err := ask(h, Sight{}); err == nil {
		t.Error("a database that is missing is not")
	}
	s := Sight{}
	s.Ties.Runtime = []string{h.Host.Paths.DataDir}
	must(t, ask(h, s))
}
