package transaction

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// unlike is a host on 1.1.0 whose database has other tables than that was proven with.
func unlike(t *testing.T) *databaseHost {
	h := newDatabaseHost(t)
	noted, err := h.Schema(t.Context())
	must(t, err)
	h.config.Status.ActiveSchema = noted
	db, err := sqlite3.Open(h.path())
	must(t, err)
	must(t, db.Exec("CREATE TABLE later (n INTEGER)"))
	must(t, db.Close())
	return h
}

// Tables that the active version was not proven with are its own if it is healthy on them, or was never proven. Else nobody goes
// back over them, and a change forward keeps them apart.
func TestNobodyGoesBackOverTablesOfAnotherVersion(t *testing.T) {
	unit := func(active, sub string, since time.Duration) systemd.Unit {
		return systemd.Unit{ActiveState: active, SubState: sub, Since: noon.Add(-since)}
	}
	exe := func(h *databaseHost) procfs.Process {
		return procfs.Process{ID: procfs.ID{PID: 1 << 30}, Exe: filepath.Join(h.Host.Paths.Versions(), "1.1.0", "bin", "teleport")}
	}
	agents := map[string]struct {
		unit    systemd.Unit
		process bool
		healthy bool
	}{
		"healthy":                     {unit("active", "running", time.Hour), true, true},
		"healthy, by a wrapper":       {unit("active", "running", time.Hour), false, true},
		"started just now":            {unit("active", "running", 3*time.Second), true, false},
		"failing, between two starts": {unit("activating", "auto-restart", time.Second), false, false},
		"failed":                      {unit("failed", "failed", time.Hour), false, false},
		"stopped":                     {unit("inactive", "dead", time.Hour), false, false},
		"unknown":                     {systemd.Unit{}, false, false},
	}
	for name, agent := range agents {
		for about, prepare := range map[string]func(h *databaseHost) (theirs bool){
			"other tables":             func(*databaseHost) bool { return true },
			"other tables, not whole":  func(h *databaseHost) bool { must(t, os.Remove(filepath.Join(h.keeps("1.1.0"), "sha256"))); return true },
			"other tables, unproven":   func(h *databaseHost) bool { h.unproven("1.0.0"); return false },
			"no tables noted":          func(h *databaseHost) bool { h.config.Status.ActiveSchema = ""; return false },
			"the tables that it noted": func(h *databaseHost) bool { h.config.Status.ActiveSchema = h.digestNow(t.Context()); return false },
		} {
			h := unlike(t)
			h.left("1.0.0", time.Hour)
			h.sight = Sight{Unit: agent.unit, State: StateOf(agent.unit)}
			if name == "unknown" {
				h.sight.State = state.AgentUnknown
			}
			if agent.process {
				h.sight.Main = exe(h)
			}
			theirs := prepare(h) && !agent.healthy
			for _, tc := range kinds {
				req := Request{Kind: tc.kind, From: h.config.Active(), To: state.Tree{Release: version.Release{Version: "1.2.0", Edition: version.OSS}}}
				back := tc.to == "1.0.0"
				if back {
					req.To.Version = tc.to
				}
				for range 2 { // and once more, by a person who insists
					d, err := h.planDatabase(t.Context(), h.sight, h.config, req)
					refused := back && theirs && !req.Force && !req.SkipBackup && name != "unknown" // where systemd does not run
					if failure.Is[*failure.RefusedError](err) != refused || !refused && err != nil {
						t.Fatalf("%s, %s: %s to %s ends with %v; want it refused: %v", name, about, tc.kind, req.To.Version, err, refused)
					}
					if says := []string{"other tables than version 1.1.0", "`teleport-update pin VERSION`", "`teleport-update " + tc.command + "`", h.Host.Paths.KeptBackups()}; refused {
						if !saysAll(err, says) {
							t.Errorf("%s, %s: %s: %v does not say all of %q", name, about, tc.kind, err, says)
						}
					} else if apart := d.Dir == h.keptDir("found"); apart != theirs || d.Foreign != theirs || back != (d.Plan == state.RestoreDatabase) {
						t.Errorf("%s, %s: %s to %s: %+v; want it kept apart: %v", name, about, tc.kind, req.To.Version, d, theirs)
					}
					tc.insist(&req)
					if req.SkipBackup && !back {
						break // it skips the backup
					}
				}
			}
		}
	}
}

func saysAll(err error, all []string) bool {
	return !slices.ContainsFunc(all, func(says string) bool { return !strings.Contains(err.Error(), says) })
}

// A version that left a database with the tables of today may go on with it: nothing is taken back.
func TestAVersionWithTheSameTablesIsGoneBackTo(t *testing.T) {
	h := unlike(t)
	h.leaves("1.0.0")
	req := Request{Kind: Rollback, From: h.config.Active(), To: state.Tree{Release: version.Release{Version: "1.0.0", Edition: version.OSS}}}
	d, err := h.planDatabase(t.Context(), Sight{}, h.config, req)
	if err != nil || d.Plan != state.BackupDatabase || d.Stop {
		t.Errorf("%+v, %v; want today's database kept", d, err)
	}
}

// The advice names the version that changed the tables if it is on disk, and no version that may be another one.
func TestTheVersionThatChangedTheTablesIsNamedIfItIsOnDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(h *databaseHost)
		want    string
	}{
		"none is on disk":    {func(*databaseHost) {}, "VERSION"},
		"an older one":       {func(h *databaseHost) { h.keeps("1.0.0") }, "VERSION"},
		"a newer one":        {func(h *databaseHost) { h.keeps("1.0.0"); h.keeps("1.2.0") }, "1.2.0"},
		"two":                {func(h *databaseHost) { h.keeps("1.2.0"); h.keeps("1.3.0") }, "VERSION"},
		"one of two, failed": {func(h *databaseHost) { h.keeps("1.2.0"); h.fails("1.3.0") }, "1.2.0"},
		"one that failed":    {func(h *databaseHost) { h.fails("1.2.0") }, "VERSION"},
		"another edition":    {func(h *databaseHost) { writeFile(t, filepath.Join(h.keeps("1.2.0"), "edition"), "enterprise\n") }, "VERSION"},
	} {
		h := newDatabaseHost(t)
		tc.prepare(h)
		if got := bringsBack(h.Machine, h.config); !strings.HasPrefix(got, "`teleport-update pin "+tc.want+"`") {
			t.Errorf("%s: %q; want version %s", name, got, tc.want)
		}
	}
}

// fails keeps a version that failed.
func (h *databaseHost) fails(v string) {
	h.keeps(v)
	h.config.Status.Failed = &state.Failed{Version: v, Edition: version.OSS}
}

// yesterday is a host that went from 1.0.0 to 1.1.0, and from there to 1.2.0, which changed the tables and wrote rows. Then
// somebody put the records and links of the day before back, and the agent was started again as 1.1.0, which cannot run.
func yesterday(t *testing.T, does func(m *model)) *model {
	t.Helper()
	m := newModel(t, "1.1.0", "1.2.0", map[string]behaviour{"1.0.0": one, "1.1.0": {schema: 2, fate: holds}, "1.2.0": {schema: 3, fate: holds}})
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	c.Status.PreviousVersion, c.Status.PreviousEdition = "1.0.0", version.OSS
	m.RecordSchema(t.Context(), &c)
	must(t, c.Save(m.Host.Paths.Config()))
	must(t, m.transact(t.Context(), m.request(Update)))
	must(t, new(state.History).Add(state.Ended{Time: noon, To: m.to, Result: state.Succeeded}, m.Host.Paths.History()))
	for range 3 {
		m.write()
	}
	must(t, c.Save(m.Host.Paths.Config()))
	tree, ok, err := m.Active(c)
	if err != nil || !ok {
		t.Fatal("yesterday's version is gone", err)
	}
	must(t, m.Host.Repair(tree))
	m.release("1.0.0")
	m.left("1.0.0")
	m.readUnits()
	must(t, m.restartUnit())
	if m.main != nil {
		t.Fatalf("version %s runs on the tables of the later one", m.main.version)
	}
	does(m)
	m.calls = nil
	return m
}

// fates are what the agent of yesterday's version does.
var fates = map[string]func(m *model){
	"failing":     func(*model) {},
	"failed":      func(m *model) { m.crashLoop() },
	"stopped":     func(m *model) { m.stopUnit() },
	"not kept":    func(m *model) { must(m.t, os.RemoveAll(filepath.Join(m.Host.Paths.Versions(), "1.2.0"))) },
	"not enabled": func(m *model) { m.stopUnit(); m.enabled = false },
}

// back asks for a change to the version before yesterday's.
func (m *model) back(kind Kind) error {
	tree, ok, err := m.Host.Store.Lookup(version.Release{Version: "1.0.0", Edition: version.OSS})
	if err != nil || !ok {
		m.t.Fatal("the version before is not in the store", err)
	}
	err, _ = m.runs(func() error { return m.transact(m.t.Context(), Request{Kind: kind, From: m.from, To: TreeOf(tree)}) })
	return err
}

// rowsLost are rows of the agent's that are not in its database.
func (m *model) rowsLost() (lost []int) {
	for n, r := range m.rows {
		if r.keep && !slices.Contains(m.seen.rows, n) {
			lost = append(lost, n)
		}
	}
	return lost
}

// What the refusal says is typed: the version that changed the database takes it up again.
func TestTheVersionThatChangedTheDatabaseTakesItUpAgain(t *testing.T) {
	advised := regexp.MustCompile("`teleport-update pin ([^`]+)` brings back")
	for name, does := range fates {
		for _, kind := range []Kind{Rollback, Downgrade, Pin, Enable} {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				m := yesterday(t, does)
				left := m.backupOf("1.1.0")
				told := m.heldAgainst()
				err := m.back(kind)
				if !failure.Is[*failure.RefusedError](err) {
					t.Fatalf("it ends with %v; want it refused", err)
				}
				if !m.committedOn(m.from) || host.Exists(m.Host.Paths.Journal()) || host.Exists(m.Host.Paths.KeptBackups()) {
					t.Errorf("something was changed: %q", m.calls)
				}
				typed := advised.FindStringSubmatch(err.Error())
				if want := map[bool]string{true: "VERSION", false: "1.2.0"}[name == "not kept"]; typed == nil || typed[1] != want {
					t.Fatalf("%v names no command for version %s", err, want)
				}
				if status := advised.FindStringSubmatch(told); status == nil || status[1] != typed[1] {
					t.Errorf("status says %q, and the refusal %q", told, typed[0])
				}
				again := map[bool]Kind{true: Update, false: Pin}[kind == Downgrade] // the cluster is set to it, or it is pinned
				err, _ = m.runs(func() error { return m.transact(t.Context(), m.request(again)) })
				must(t, err)
				if c, err := m.Host.Paths.LoadConfig(); err != nil || c.Status.ActiveSchema != m.digestNow(t.Context()) {
					t.Errorf("the tables of 1.2.0 are recorded as %s, %v", c.Status.ActiveSchema, err)
				}
				if told := m.heldAgainst(); told != "" {
					t.Errorf("then status says %q", told)
				}
				m.booted = true
				must(t, m.startUnit())
				if err := m.sound(); err != nil || m.main.version != "1.2.0" || len(m.rowsLost()) > 0 {
					t.Errorf("version 1.2.0 does not run on its rows: %v; lost: %v", err, m.rowsLost())
				}
				if meta, err := backup.MetaOf(filepath.Join(m.Host.Paths.KeptBackups(), "found")); err != nil || meta.Version != "" {
					t.Errorf("today's database is not kept apart: %+v, %v", meta, err)
				}
				if m.backupOf("1.1.0") != left {
					t.Error("the backup that 1.1.0 was left with is another one")
				}
			})
		}
	}
}

// heldAgainst is what status says of the agent's tables.
func (m *model) heldAgainst() string {
	c, err := m.Host.Paths.LoadConfig()
	must(m.t, err)
	why, err := CheckTables(m.t.Context(), m.Machine, c, m)
	must(m.t, err)
	if why == nil {
		return ""
	}
	return why.Error()
}

// leaves has a version leave the database of today in a backup.
func (h *databaseHost) leaves(v string) {
	db, err := backup.Open(h.path())
	must(h.t, err)
	defer db.Close()
	_, err = db.Take(h.t.Context(), backup.TakeRequest{Dir: filepath.Join(h.keeps(v), "backup"),
		Meta: backup.Meta{Proxy: "proxy", Version: v, Edition: version.OSS, Created: noon.Add(-time.Hour)}})
	must(h.t, err)
}

// Who insists goes back, and finds the rows in the backup that the refusal names.
func TestWhoInsistsOnGoingBackFindsTheRowsApart(t *testing.T) {
	m := yesterday(t, fates["failing"])
	rows := len(m.seen.rows)
	err := m.back(Rollback)
	found := filepath.Join(m.Host.Paths.KeptBackups(), "found")
	if err == nil || !strings.Contains(err.Error(), "keeps today's database in "+filepath.Dir(found)) {
		t.Fatalf("it ends with %v", err)
	}
	tree, _, err := m.Host.Store.Lookup(version.Release{Version: "1.0.0", Edition: version.OSS})
	must(t, err)
	must(t, m.transact(t.Context(), Request{Kind: Rollback, From: m.from, To: TreeOf(tree), Force: true}))
	m.look()
	if err := m.sound(); err != nil || m.main.version != "1.0.0" || m.seen.rows[0] != -1 {
		t.Errorf("1.0.0 does not run on its own database: %v, %+v", err, m.seen)
	}
	live := m.db
	m.db = filepath.Join(found, backup.FileName)
	if kept := m.readDatabase(); kept.schema != 3 || len(kept.rows) != rows {
		t.Errorf("kept: %+v; want %d rows", kept, rows)
	}
	m.db = live
}

// A version that is put in its place again while the agent is stopped is proven by nothing, and least with the tables of another.
func TestAStoppedVersionThatIsPutBackIsNotProvenWithTablesOfAnother(t *testing.T) {
	m := yesterday(t, fates["stopped"])
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	tree, _, err := m.Active(c)
	must(t, err)
	must(t, m.transact(t.Context(), Request{Kind: Enable, From: m.from, To: TreeOf(tree), Spec: &c.Spec}))
	if err := m.back(Rollback); !failure.Is[*failure.RefusedError](err) {
		t.Errorf("then a rollback ends with %v; want it refused", err)
	}
}

// An uninstall would leave a version that cannot start on its database.
func TestAnUninstallLeavesNoVersionThatIsStoppedOnTablesOfAnother(t *testing.T) {
	for name, stop := range map[string]bool{"stopped": true, "healthy": false} {
		m := migrated(t)
		c, err := m.Host.Paths.LoadConfig()
		must(t, err)
		if stop {
			m.stopUnit()
		}
		c.Status.ActiveSchema = "1-2345"
		must(t, c.Save(m.Host.Paths.Config()))
		_, err = m.CheckUninstall(context.Background(), false, m)
		if failure.Is[*failure.RefusedError](err) != stop || stop && !saysAll(err, []string{"other tables than version 1.1.0", "pin VERSION"}) {
			t.Errorf("%s: it ends with %v; want it refused: %v", name, err, stop)
		}
	}
}

// Records and links of the day before were put back under a later version, or over its database: an uninstall
// leaves an agent that runs, now and after a boot, or nothing is changed.
func TestAnUninstallKeepsNoVersionOnTablesOfAnother(t *testing.T) {
	for name, restarted := range map[string]bool{"the later version runs": false, "the earlier version was started": true} {
		for schema, refused := range map[int]bool{3: true, 2: !restarted} {
			t.Run(fmt.Sprintf("%s, schema %d", name, schema), func(t *testing.T) {
				m := migrated(t)
				m.versions["1.2.0"] = behaviour{schema: schema, fate: holds}
				m.release("1.2.0")
				before, err := m.Host.Paths.LoadConfig()
				must(t, err)
				tree, _, err := m.Host.Store.Lookup(version.Release{Version: "1.2.0", Edition: version.OSS})
				must(t, err)
				must(t, m.transact(t.Context(), Request{Kind: Update, From: m.to, To: TreeOf(tree)}))
				must(t, before.Save(m.Host.Paths.Config()))
				old, ok, err := m.Active(before)
				if err != nil || !ok {
					t.Fatal("the version before is gone", err)
				}
				must(t, m.Host.Repair(old))
				m.readUnits()
				if restarted {
					must(t, m.restartUnit())
				}
				err, _ = m.leave(false)
				if failure.Is[*failure.RefusedError](err) != refused || !refused && err != nil {
					t.Errorf("it ends with %v; want it refused: %t", err, refused)
				}
				if refused && err != nil && !saysAll(err, []string{"version 1.1.0", "`teleport-update pin 1.2.0`"}) {
					t.Errorf("%v does not name the version to go on with", err)
				}
				if refused && !host.Exists(m.Host.Paths.Versions()) {
					t.Error("the store is gone")
				}
				if !refused {
					m.reboot()
					if m.main == nil {
						t.Error("after a boot no agent runs")
					}
				}
			})
		}
	}
}
