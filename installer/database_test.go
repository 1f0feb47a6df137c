package installer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"teleport-update/backup"
	"teleport-update/internal/version"
)

// databaseHost is a host on version 1.1.0 of the cluster at "proxy", by files
// alone.
type databaseHost struct {
	*Installer
	t      *testing.T
	config Config
}

func newDatabaseHost(t *testing.T) *databaseHost {
	t.Helper()
	h := &databaseHost{Installer: testInstaller(t), t: t}
	h.Now = func() time.Time { return noon }
	h.config = Config{
		Version: configVersion, Kind: configKind,
		Spec:   Spec{Proxy: "proxy", Enabled: true, ActiveVersion: "1.1.0"},
		Status: Status{ActiveEdition: version.OSS},
	}
	h.keeps("1.1.0")
	h.makeDatabase(h.path())
	return h
}

func (h *databaseHost) path() string { return filepath.Join(h.Paths.DataDir, "proc", "sqlite.db") }

func (h *databaseHost) makeDatabase(path string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	c, err := sqlite3.Open(path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec("CREATE TABLE t (data BLOB); INSERT INTO t VALUES (randomblob(100000)); CREATE TABLE u (id INTEGER PRIMARY KEY)"); err != nil {
		h.t.Fatal(err)
	}
}

// keeps puts a version's folder in the store, by what marks it as complete.
func (h *databaseHost) keeps(v string) (dir string) {
	h.t.Helper()
	dir = filepath.Join(h.Paths.Versions(), v)
	writeFile(h.t, filepath.Join(dir, "edition"), "oss\n")
	writeFile(h.t, filepath.Join(dir, "manifest"), "")
	writeFile(h.t, filepath.Join(dir, "sha256"), strings.Repeat("ab", 32)+"\n")
	return dir
}

// left gives a kept version the database that it had when it was left.
func (h *databaseHost) left(v string, age time.Duration) {
	h.t.Helper()
	scratch := filepath.Join(h.t.TempDir(), "sqlite.db")
	h.makeDatabase(scratch)
	err := backup.Take(h.t.Context(), backup.TakeRequest{Source: scratch, Dir: filepath.Join(h.keeps(v), "backup"),
		Meta: backup.Meta{Proxy: "proxy", Version: v, Edition: version.OSS, Created: noon.Add(-age)}})
	if err != nil {
		h.t.Fatal(err)
	}
}

// damage makes the database one that is none, or one that looks sound until it
// is read.
func (h *databaseHost) damage(deep bool) {
	h.t.Helper()
	f, err := os.OpenFile(h.path(), os.O_RDWR, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	at := int64(0)
	if deep {
		info, err := f.Stat()
		if err != nil {
			h.t.Fatal(err)
		}
		at = info.Size() - 4096 // the root of u
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("garbage ", 512)), at); err != nil {
		h.t.Fatal(err)
	}
}

func TestWhatASwitchDoesWithTheDatabase(t *testing.T) {
	const day = 24 * time.Hour
	update := SwitchRequest{Kind: switchUpdate}
	downgrade := SwitchRequest{Kind: switchDowngrade}
	rollback := SwitchRequest{Kind: switchRollback}
	force := func(r SwitchRequest) SwitchRequest { r.Force = true; return r }
	skip := func(r SwitchRequest) SwitchRequest { r.SkipBackup = true; return r }
	elsewhere := &Spec{Proxy: "other", Enabled: true}
	type host = *databaseHost
	nothing := func(host) {}
	valid := func(v string) func(host) { return func(h host) { h.left(v, day) } }
	none := func(h host) { os.Remove(h.path()) }
	shallow := func(h host) { h.damage(false) }
	deep := func(h host) { h.damage(true) }
	both := func(prepare ...func(host)) func(host) {
		return func(h host) {
			for _, p := range prepare {
				p(h)
			}
		}
	}
	fresh := func(h host) { h.config.Spec.ActiveVersion, h.config.Status = "", Status{} }
	refused := func(says ...string) []string { return append(says, "nothing was changed") }

	for _, tc := range []struct {
		name    string
		prepare func(host)
		to      string
		request SwitchRequest
		want    databaseRecord // without paths
		refused []string       // in the error
	}{
		{"no database, forward", none, "1.2.0", update, databaseRecord{Plan: keepDatabase}, nil},
		{"no database, back to a version that is not here", none, "1.0.0", downgrade, databaseRecord{Plan: keepDatabase, Stop: true}, nil},
		{"forward to a new version", nothing, "1.2.0", update, databaseRecord{Plan: backupDatabase}, nil},
		{"forward to the very version that was left", valid("1.2.0"), "1.2.0", update, databaseRecord{Plan: restoreDatabase, Stop: true}, nil},
		{"forward to another version than the one that was left", valid("1.2.0"), "1.3.0", update, databaseRecord{Plan: backupDatabase}, nil},
		{"forward to the very version, its backup too old", func(h host) { h.left("1.2.0", 31*day) }, "1.2.0", update, databaseRecord{Plan: backupDatabase}, nil},
		{"forward to the very version, of another cluster", valid("1.2.0"), "1.2.0", SwitchRequest{Kind: switchEnable, Spec: elsewhere},
			databaseRecord{Plan: backupDatabase}, nil},
		{"another edition of the same version", nothing, "1.1.0", update, databaseRecord{Plan: backupDatabase}, nil},
		{"first enable", fresh, "1.0.0", SwitchRequest{Kind: switchEnable}, databaseRecord{Plan: backupDatabase}, nil},
		{"first enable over a newer agent", fresh, "1.0.0", force(SwitchRequest{Kind: switchEnable}), databaseRecord{Plan: backupDatabase, Stop: true}, nil},

		{"back", valid("1.0.0"), "1.0.0", downgrade, databaseRecord{Plan: restoreDatabase, Stop: true}, nil},
		{"back by hand", valid("1.0.0"), "1.0.0", rollback, databaseRecord{Plan: restoreDatabase, Stop: true}, nil},
		{"back, nothing here", nothing, "1.0.0", downgrade, databaseRecord{}, refused("1.0.0", "not on this host any more", "--allow-downgrade")},
		{"back, incomplete", func(h host) { h.left("1.0.0", day); os.Remove(filepath.Join(h.keeps("1.0.0"), "sha256")) }, "1.0.0", downgrade,
			databaseRecord{}, refused("its folder 1.0.0 is incomplete (sha256 is missing)")},
		{"back, no backup", func(h host) { h.keeps("1.0.0") }, "1.0.0", downgrade, databaseRecord{}, refused("does not exist", "rollback 1.0.0 --force")},
		{"back, too old", func(h host) { h.left("1.0.0", 31*day) }, "1.0.0", downgrade, databaseRecord{}, refused("31 days old, more than the 30 days allowed")},
		{"back, older than a person allows", both(valid("1.0.0"), func(h host) { h.config.Spec.Backup.MaxAge = Duration(time.Hour) }), "1.0.0", downgrade,
			databaseRecord{}, refused("more than the 1h0m0s allowed")},
		{"back, from the future", func(h host) { h.left("1.0.0", -day) }, "1.0.0", downgrade, databaseRecord{}, refused("in the future")},
		{"back, of another cluster", valid("1.0.0"), "1.0.0", SwitchRequest{Kind: switchEnable, Spec: elsewhere}, databaseRecord{}, refused(`"proxy", not to "other"`)},
		{"back, no backup, forced", func(h host) { h.keeps("1.0.0") }, "1.0.0", force(rollback), databaseRecord{Plan: backupDatabase, Stop: true}, nil},
		{"back, not here, forced", nothing, "1.0.0", force(SwitchRequest{Kind: switchEnable}), databaseRecord{Plan: backupDatabase, Stop: true}, nil},
		{"back, forced without need", valid("1.0.0"), "1.0.0", force(rollback), databaseRecord{Plan: restoreDatabase, Stop: true}, nil},

		{"forward, backup skipped", nothing, "1.2.0", skip(update), databaseRecord{Plan: keepDatabase, Skipped: true}, nil},
		{"forward to the very version, backup skipped", valid("1.2.0"), "1.2.0", skip(update), databaseRecord{Plan: keepDatabase, Skipped: true}, nil},
		{"back, never without a backup", valid("1.0.0"), "1.0.0", skip(downgrade), databaseRecord{Plan: restoreDatabase, Stop: true}, nil},

		{"damaged, forward", shallow, "1.2.0", update, databaseRecord{}, refused("sqlite.db is damaged or not a database", "update --now --skip-backup")},
		{"damaged, forward, skipped", shallow, "1.2.0", skip(update), databaseRecord{Plan: keepDatabase, Damaged: true}, nil},
		{"damaged, forward to the very version, skipped", both(valid("1.2.0"), shallow), "1.2.0", skip(update), databaseRecord{Plan: restoreDatabase, Stop: true, Damaged: true}, nil},
		{"damaged, enable", shallow, "1.2.0", force(SwitchRequest{Kind: switchEnable}), databaseRecord{}, refused("repair it or move it away")},
		{"damaged, back", both(valid("1.0.0"), shallow), "1.0.0", downgrade, databaseRecord{}, refused("update --now --skip-backup")},
		{"damaged, back, skipped", both(valid("1.0.0"), shallow), "1.0.0", skip(downgrade), databaseRecord{Plan: restoreDatabase, Stop: true, Damaged: true}, nil},
		{"damaged, back by hand", both(valid("1.0.0"), shallow), "1.0.0", rollback, databaseRecord{}, refused("rollback 1.0.0 --force")},
		{"damaged, back by hand, forced", both(valid("1.0.0"), shallow), "1.0.0", force(rollback), databaseRecord{Plan: restoreDatabase, Stop: true, Damaged: true}, nil},
		{"damaged, back by hand, forced, no backup", both(func(h host) { h.keeps("1.0.0") }, shallow), "1.0.0", force(rollback),
			databaseRecord{Plan: keepDatabase, Stop: true, Damaged: true}, nil},
		{"damaged inside, forward: the backup tells", deep, "1.2.0", update, databaseRecord{Plan: backupDatabase}, nil},
		{"damaged inside, back: told before the agent is stopped", both(valid("1.0.0"), deep), "1.0.0", downgrade, databaseRecord{}, refused("damaged or not a database")},
		{"damaged inside, back by hand, forced", both(valid("1.0.0"), deep), "1.0.0", force(rollback), databaseRecord{Plan: restoreDatabase, Stop: true, Damaged: true}, nil},
		{"a folder in its place", func(h host) { none(h); os.Mkdir(h.path(), 0o700) }, "1.2.0", update, databaseRecord{}, refused("sqlite.db is a folder", "--skip-backup")},
		{"a link in its place", func(h host) { none(h); os.Symlink("/etc/passwd", h.path()) }, "1.2.0", update, databaseRecord{}, refused("sqlite.db is a symbolic link")},
		{"a folder in its place, skipped", func(h host) { none(h); os.Mkdir(h.path(), 0o700) }, "1.2.0", skip(update), databaseRecord{Plan: keepDatabase, Skipped: true}, nil},
		{"nobody knows where it is", func(h host) { writeFile(h.t, h.Paths.AgentConfig, "teleport: [") }, "1.2.0", update, databaseRecord{}, refused("teleport.yaml")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newDatabaseHost(t)
			tc.prepare(h)
			req := tc.request
			req.From, req.To = h.config.activeTarget(), release{Version: tc.to, Edition: version.OSS}
			if tc.name == "another edition of the same version" {
				req.To.Edition = version.Enterprise
			}
			got, err := h.planDatabase(t.Context(), h.config, req)
			if len(tc.refused) > 0 {
				for _, says := range tc.refused {
					if err == nil || !strings.Contains(err.Error(), says) {
						t.Errorf("got %+v, %v; want a refusal with %q", got, err, says)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(h.Paths.Versions(), "1.1.0", "backup")
			if req.From.Version == "" {
				dir = filepath.Join(h.Paths.Original(), "backup")
			}
			if got.Path != h.path() || got.Dir != dir {
				t.Errorf("database %s, backup in %s", got.Path, got.Dir)
			}
			got.Path, got.Dir = "", ""
			if got != tc.want {
				t.Errorf("got %+v; want %+v", got, tc.want)
			}
		})
	}
}

// A backup that an earlier, failed switch took would else be restored when the
// version is fetched again and gone back to.
func TestAVersionThatIsNotWholeKeepsItsOwnDatabase(t *testing.T) {
	for missing, want := range map[string]string{"sha256": "1.1.0/backup", "edition": "original/backup"} {
		h := newDatabaseHost(t)
		if err := os.Remove(filepath.Join(h.keeps("1.1.0"), missing)); err != nil {
			t.Fatal(err)
		}
		req := SwitchRequest{Kind: switchUpdate, From: h.config.activeTarget(), To: release{Version: "1.2.0", Edition: version.OSS}}
		d, err := h.planDatabase(t.Context(), h.config, req)
		if err != nil || d.Dir != filepath.Join(h.Paths.Versions(), want) {
			t.Errorf("without %s: the backup goes to %s, %v; want %s", missing, d.Dir, err, want)
		}
	}
}

func TestTheDatabaseIsWhereTheAgentsConfigurationSays(t *testing.T) {
	h := newDatabaseHost(t)
	dir := t.TempDir()
	h.makeDatabase(filepath.Join(dir, "proc", "sqlite.db"))
	writeFile(t, h.Paths.AgentConfig, fmt.Sprintf("teleport:\n  data_dir: %s\n", dir))
	req := SwitchRequest{Kind: switchUpdate, From: h.config.activeTarget(), To: release{Version: "1.2.0", Edition: version.OSS}}
	d, err := h.planDatabase(t.Context(), h.config, req)
	if want := filepath.Join(dir, "proc", "sqlite.db"); err != nil || d.Path != want || d.Plan != backupDatabase {
		t.Errorf("got %+v, %v; want a backup of %s", d, err, want)
	}
}

func TestASwitchNeedsRoomToBeUndone(t *testing.T) {
	h := newDatabaseHost(t)
	h.left("1.0.0", time.Hour)
	size, err := backup.Size(h.path())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		plan          databasePlan
		take, restore int64
	}{
		"nothing is copied":          {keepDatabase, 0, 0},
		"a backup, and back":         {backupDatabase, size, size},
		"a backup, and another back": {restoreDatabase, size, size},
	} {
		take, restore, err := roomFor(databaseRecord{Plan: tc.plan, Path: h.path()}, filepath.Join(h.keeps("1.0.0"), "backup"))
		if err != nil || take != tc.take || restore != tc.restore {
			t.Errorf("%s: %d and %d bytes, %v; want %d and %d", name, take, restore, err, tc.take, tc.restore)
		}
	}
	if err := os.Truncate(h.path(), 8<<40); err != nil { // sparse
		t.Fatal(err)
	}
	if err := h.checkRoom(databaseRecord{Plan: backupDatabase, Path: h.path()}, ""); err == nil || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("eight terabytes fit: %v", err)
	}
}

func TestOnlyANamedVersionIsTheTargetOfASecondRollback(t *testing.T) {
	at := func(v string) Config {
		return Config{Spec: Spec{ActiveVersion: v}, Status: Status{ActiveEdition: version.OSS, PreviousVersion: "1.1.0", PreviousEdition: version.FIPS}}
	}
	held := func(v string) Config {
		c := at("1.0.0")
		c.Status.Held = &Held{Version: v, Edition: version.OSS, Since: noon}
		return c
	}
	for _, tc := range []struct {
		name    string
		config  Config
		named   string
		want    target
		refused string
	}{
		{"the previous version, in its edition", at("1.2.0"), "", target{Version: "1.1.0", Edition: version.FIPS}, ""},
		{"the previous version by name", at("1.2.0"), "1.1.0", target{Version: "1.1.0", Edition: version.FIPS}, ""},
		{"another version by name", at("1.2.0"), "1.0.0", target{Version: "1.0.0", Edition: version.OSS}, ""},
		{"the active version", at("1.2.0"), "1.2.0", target{}, "is active already"},
		{"a second rollback", held("1.1.0"), "", target{}, "rollback 1.1.0`"},
		{"a second rollback, find wants yet another version", held("1.3.0"), "", target{}, "rollback 1.1.0`"},
		{"a second rollback by name", held("1.1.0"), "1.1.0", target{Version: "1.1.0", Edition: version.FIPS}, ""},
		{"never enabled", Config{}, "", target{}, "no active version"},
		{"no previous version", Config{Spec: Spec{ActiveVersion: "1.0.0"}}, "", target{}, "no previous version"},
	} {
		got, err := rollbackTarget(tc.config, tc.named)
		if got != tc.want || (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: %v, %v; want %v, %q", tc.name, got, err, tc.want, tc.refused)
		}
	}
}
