package transaction

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
)

// repairs is what each command does before it decides.
func (m *model) repairs() {
	m.t.Helper()
	c, err := m.Host.Paths.LoadConfig()
	must(m.t, err)
	tree, ok, err := m.Active(c)
	if err != nil || !ok {
		m.t.Fatal("no version is active", err)
	}
	if err := m.CheckPair(m.t.Context(), c, tree, m); failure.Is[*failure.RefusedError](err) {
		return
	}
	must(m.t, m.Host.Repair(tree))
}

// backupOf is the content of the backup of a version.
func (m *model) backupOf(v string) string {
	text, err := os.ReadFile(filepath.Join(m.Host.Paths.Versions(), v, "backup", backup.FileName))
	must(m.t, err)
	return string(text)
}

// A host goes from A to B, each of which was left once, and somebody puts a copy of updates.yaml back that names A. The cluster
// wants B, which runs: the database of today is B's, and neither the backup that B was left with in the past takes its place, nor
// does it take the place of the one that A was left with.
func TestAVersionThatRunsKeepsItsDatabaseWhateverUpdatesYAMLSays(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		schemas  [2]int
	}{
		{"1.1.0", "1.0.0", [2]int{2, 1}}, {"1.1.0", "1.0.0", [2]int{1, 1}}, {"1.0.0", "1.1.0", [2]int{1, 2}}, {"1.0.0", "1.1.0", [2]int{1, 1}},
	} {
		for _, f := range []fate{holds, neverReady} {
			t.Run(fmt.Sprintf("%s to %s, schemas %d, %s", tc.from, tc.to, tc.schemas, f), func(t *testing.T) {
				m := newModel(t, tc.from, tc.to, map[string]behaviour{tc.from: {schema: tc.schemas[0], fate: holds}, tc.to: {schema: tc.schemas[1], fate: holds}})
				m.left(tc.to)
				c, err := m.Host.Paths.LoadConfig()
				must(t, err)
				m.RecordSchema(t.Context(), &c)
				kind := map[bool]Kind{true: Update, false: Downgrade}[version.Compare(tc.to, tc.from) > 0]
				must(t, m.transact(t.Context(), m.request(kind)))
				if m.main == nil || m.main.version != tc.to || m.seen.rows[0] != -1 {
					t.Fatalf("the host does not run %s on its database: %+v, %+v", tc.to, m.main, m.seen)
				}
				for range 3 {
					m.write()
				}
				left := m.backupOf(tc.from)
				must(t, new(state.History).Add(state.Ended{Time: noon, To: m.to, Result: state.Succeeded}, m.Host.Paths.History()))
				must(t, c.Save(m.Host.Paths.Config()))
				m.versions[tc.to] = behaviour{schema: tc.schemas[1], fate: f}
				m.calls = nil
				m.repairs()
				err, _ = m.runs(func() error { return m.transact(t.Context(), m.request(kind)) })
				if (err == nil) != (f == holds) {
					t.Errorf("it ends with %v", err)
				}
				if f == holds && slices.Contains(m.calls, "stop") {
					t.Errorf("the agent was stopped: %q", m.calls)
				}
				for n := range m.rows {
					if r := m.rows[n]; r.by == tc.to && r.keep && !slices.Contains(m.seen.rows, n) {
						t.Errorf("row %d is lost", n)
					}
				}
				if m.main == nil || host.Exists(m.Host.Paths.Journal()) || len(m.wrong) > 0 {
					t.Errorf("the agent is %+v; %q", m.main, m.wrong)
				}
				if m.backupOf(tc.from) != left {
					t.Errorf("the backup that %s was left with is another one", tc.from)
				}
				if meta, err := backup.MetaOf(filepath.Join(m.Host.Paths.KeptBackups(), "found")); err != nil || meta.Version != "" {
					t.Errorf("the database of today is not kept apart: %+v, %v", meta, err)
				}
				if f == holds {
					if err := m.sound(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// Somebody installs by hand the version that the host has left once, and the updater is to take it over: today's database is that
// version's. A program that names no version may be that one as long as the tables are the same.
func TestAVersionInstalledByHandKeepsItsDatabase(t *testing.T) {
	const named = "#!/bin/sh\necho Teleport v1.1.0 git:v1.1.0-0 go1.22\n"
	const older = "#!/bin/sh\necho Teleport v1.0.5 git:v1.0.5-0 go1.22\n"
	for _, tc := range []struct {
		program  string
		schema   int // of that program
		restores bool
	}{{named, 2, false}, {named, 1, false}, {"unnamed", 2, false}, {"unnamed", 3, true}, {older, 2, true}, {older, 1, true}} {
		t.Run(fmt.Sprintf("%q with schema %d", tc.program, tc.schema), func(t *testing.T) {
			target := twoHolds
			if tc.program == named {
				target.schema = tc.schema
			}
			m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": target})
			m.left("1.0.0")
			m.left("1.1.0")
			m.versions[tc.program] = behaviour{schema: tc.schema, fate: holds}
			c, err := m.Host.Paths.LoadConfig()
			must(t, err)
			m.RecordSchema(t.Context(), &c)
			dir := filepath.Join(t.TempDir(), "other")
			link := filepath.Join(m.Host.Paths.LinkDir, "teleport")
			must(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "bin", "teleport"), []byte(tc.program), 0o755))
			must(t, os.Remove(link))
			must(t, os.Symlink(filepath.Join(dir, "bin", "teleport"), link))
			must(t, m.restartUnit())
			left := m.backupOf("1.0.0")
			m.repairs()
			must(t, m.transact(t.Context(), m.request(Pin)))
			if restored := m.seen.rows[0] == -1; restored != tc.restores {
				t.Errorf("the database that 1.1.0 was left with in the past is back: %v", restored)
			}
			if m.backupOf("1.0.0") != left {
				t.Error("the backup that 1.0.0 was left with is another one")
			}
			if meta, err := backup.MetaOf(filepath.Join(m.Host.Paths.Versions(), "1.1.0", "backup")); err == nil {
				t.Errorf("1.1.0 runs on, and the backup that it was left with in the past could be restored: %+v", meta)
			}
			if err := m.sound(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whether a change goes back is a matter of the version that runs: updates.yaml may name an older or a newer one. Back from it takes
// a backup of the version to go to.
func TestAChangeGoesBackFromTheVersionThatRuns(t *testing.T) {
	for _, tc := range []struct {
		runs, to string
		left     bool // a valid backup of the version to go to
		plan     state.DatabasePlan
		refused  bool
	}{
		{"1.3.0", "1.2.0", false, "", true},
		{"1.3.0", "1.2.0", true, state.RestoreDatabase, false},
		{"1.3.0", "1.4.0", false, state.BackupDatabase, false},
		{"1.0.0", "1.0.5", false, state.BackupDatabase, false},
		{"1.1.0", "1.0.5", false, "", true},
		{"1.1.0", "1.2.0", false, state.BackupDatabase, false},
	} {
		h := newDatabaseHost(t)
		h.keeps("1.1.0")
		if tc.left {
			h.left(tc.to, time.Hour)
		}
		sight := Sight{State: state.AgentRunning, Main: procfs.Process{ID: procfs.ID{PID: 1 << 30}, Exe: filepath.Join(h.Host.Paths.Versions(), tc.runs, "bin", "teleport")}}
		req := Request{Kind: Update, From: h.config.Active(), To: state.Tree{Release: version.Release{Version: tc.to, Edition: version.OSS}}}
		d, err := h.planDatabase(t.Context(), sight, h.config, req)
		if failure.Is[*failure.RefusedError](err) != tc.refused || !tc.refused && (err != nil || d.Plan != tc.plan) {
			t.Errorf("%s runs, to %s: %+v, %v", tc.runs, tc.to, d, err)
		}
	}
}

// A process that drains its sessions says nothing of the database, which is the next one's.
func TestTheDatabaseIsOfTheProcessThatServes(t *testing.T) {
	h := newDatabaseHost(t)
	h.keeps("1.0.0")
	from := func(v string) procfs.Process {
		return procfs.Process{ID: procfs.ID{PID: 1 << 30}, Exe: filepath.Join(h.Host.Paths.Versions(), v, "bin", "teleport")}
	}
	// Without a PID file systemd has the process before for the main one, and the next is in its group.
	program := filepath.Join(h.Host.Paths.Versions(), "1.1.0", "bin", "teleport")
	sleep, err := os.ReadFile("/bin/sleep")
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(program), 0o755))
	must(t, os.WriteFile(program, sleep, 0o755))
	next := exec.CommandContext(t.Context(), program, "1000")
	must(t, next.Start())
	t.Cleanup(func() { next.Process.Kill(); next.Wait() })
	for name, tc := range map[string]struct {
		sight Sight
		want  owner
	}{
		"no agent runs":                      {Sight{}, owner{}},
		"the active version":                 {Sight{Main: from("1.1.0")}, owner{}},
		"the active version, fetched anew":   {Sight{Main: procfs.Process{ID: procfs.ID{PID: 1}, Exe: h.Host.Paths.Versions() + "/.staging-1.1.0-17/bin/teleport (deleted)"}}, owner{}},
		"another version":                    {Sight{Main: from("1.0.0")}, owner{another: true, version: "1.0.0"}},
		"one that is gone from the disk":     {Sight{Main: from("0.9.0")}, owner{another: true, version: "0.9.0"}},
		"the version before drains":          {Sight{Main: from("1.0.0"), Serving: from("1.1.0")}, owner{}},
		"the active version drains":          {Sight{Main: from("1.1.0"), Serving: from("1.0.0")}, owner{another: true, version: "1.0.0"}},
		"the version before drains, no file": {Sight{Main: from("1.0.0"), Group: []int{next.Process.Pid}}, owner{}},
		"a wrapper":                          {Sight{Main: procfs.Process{ID: procfs.ID{PID: 1}, Exe: "/bin/sh"}}, owner{}},
		"a program that was removed":         {Sight{Main: procfs.Process{ID: procfs.ID{PID: 1}, Exe: "/usr/bin/teleport (deleted)"}}, owner{}},
	} {
		if got, err := h.databaseOwner(t.Context(), tc.sight, h.config); err != nil || got != tc.want {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, tc.want)
		}
	}
}
