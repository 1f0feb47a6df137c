package transaction

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
	"golang.org/x/sys/unix"

	"teleport-update/backup"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// databaseHost is a host on version 1.1.0 of the cluster at "proxy", by files
// alone.
type databaseHost struct {
	*Machine
	t      *testing.T
	config state.Config
	sight  Sight
}

func newDatabaseHost(t *testing.T) *databaseHost {
	t.Helper()
	h := &databaseHost{Machine: testMachine(t), t: t}
	h.Now = func() time.Time { return noon }
	h.config = state.EmptyConfig()
	h.config.Spec = state.Spec{Proxy: "proxy", Enabled: true, ActiveVersion: "1.1.0"}
	h.config.Status.ActiveEdition = version.OSS
	h.keeps("1.1.0")
	h.makeDatabase(h.path())
	return h
}

func (h *databaseHost) path() string { return filepath.Join(h.Host.Paths.DataDir, "proc", "sqlite.db") }

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
	dir = filepath.Join(h.Host.Paths.Versions(), v)
	writeFile(h.t, filepath.Join(dir, "edition"), "oss\n")
	writeFile(h.t, filepath.Join(dir, "manifest"), "")
	writeFile(h.t, filepath.Join(dir, "sha256"), strings.Repeat("ab", 32)+"\n")
	return dir
}

// unproven has the active version come from another, and be seen by nobody.
func (h *databaseHost) unproven(from string) {
	h.config.Status.Unproven, h.config.Status.PreviousVersion, h.config.Status.PreviousEdition = true, from, h.config.Status.ActiveEdition
}

// left gives a kept version the database that it had when it was left.
func (h *databaseHost) left(v string, age time.Duration) {
	h.t.Helper()
	scratch := filepath.Join(h.t.TempDir(), "sqlite.db")
	h.makeDatabase(scratch)
	db, err := backup.Open(scratch)
	must(h.t, err)
	defer db.Close()
	_, err = db.Take(h.t.Context(), backup.TakeRequest{Dir: filepath.Join(h.keeps(v), "backup"),
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

func TestWhatATransactionDoesWithTheDatabase(t *testing.T) {
	const day = 24 * time.Hour
	update := Request{Kind: Update}
	downgrade := Request{Kind: Downgrade}
	rollback := Request{Kind: Rollback}
	force := func(r Request) Request { r.Force = true; return r }
	skip := func(r Request) Request { r.SkipBackup = true; return r }
	elsewhere := &state.Spec{Proxy: "other", Enabled: true}
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
	fresh := func(h host) { h.config.Spec.ActiveVersion, h.config.Status = "", state.Status{} }
	refused := func(says ...string) []string { return append(says, "nothing was changed") }

	for _, tc := range []struct {
		name    string
		prepare func(host)
		to      string
		request Request
		want    state.Database // without paths
		refused []string       // in the error
	}{
		{"no database, forward", none, "1.2.0", update, state.Database{Plan: state.KeepDatabase, Absent: true}, nil},
		{"no database, back to a version that is not here", none, "1.0.0", downgrade, state.Database{Plan: state.KeepDatabase, Stop: true, Absent: true}, nil},
		{"forward to a new version", nothing, "1.2.0", update, state.Database{Plan: state.BackupDatabase}, nil},
		{"forward to the very version that was left", valid("1.2.0"), "1.2.0", update, state.Database{Plan: state.RestoreDatabase, Stop: true}, nil},
		{"forward to another version than the one that was left", valid("1.2.0"), "1.3.0", update, state.Database{Plan: state.BackupDatabase}, nil},
		{"forward to the very version, its backup too old", func(h host) { h.left("1.2.0", 31*day) }, "1.2.0", update, state.Database{Plan: state.BackupDatabase}, nil},
		{"forward to the very version, of another cluster", valid("1.2.0"), "1.2.0", Request{Kind: Enable, Spec: elsewhere},
			state.Database{Plan: state.BackupDatabase}, nil},
		{"another edition of the same version", nothing, "1.1.0", update, state.Database{Plan: state.BackupDatabase}, nil},
		{"first enable", fresh, "1.0.0", Request{Kind: Enable}, state.Database{Plan: state.BackupDatabase}, nil},
		{"first enable over a newer agent", fresh, "1.0.0", force(Request{Kind: Enable}), state.Database{Plan: state.BackupDatabase, Stop: true}, nil},

		{"back", valid("1.0.0"), "1.0.0", downgrade, state.Database{Plan: state.RestoreDatabase, Stop: true}, nil},
		{"back by hand", valid("1.0.0"), "1.0.0", rollback, state.Database{Plan: state.RestoreDatabase, Stop: true}, nil},
		{"back, nothing here", nothing, "1.0.0", downgrade, state.Database{}, refused("1.0.0", "not on this host any more", "--allow-downgrade")},
		{"back, incomplete", func(h host) { h.left("1.0.0", day); os.Remove(filepath.Join(h.keeps("1.0.0"), "sha256")) }, "1.0.0", downgrade,
			state.Database{}, refused("its folder 1.0.0 is incomplete (sha256 is missing)")},
		{"back, no backup", func(h host) { h.keeps("1.0.0") }, "1.0.0", downgrade, state.Database{}, refused("does not exist", "rollback 1.0.0 --force")},
		{"back, too old", func(h host) { h.left("1.0.0", 31*day) }, "1.0.0", downgrade, state.Database{}, refused("31 days old, more than the 30 days allowed")},
		{"back from a version that no agent has run yet, however old", func(h host) {
			h.left("1.0.0", 90*day)
			h.unproven("1.0.0")
		}, "1.0.0", rollback, state.Database{Plan: state.RestoreDatabase, Stop: true}, nil},
		{"back, too old, from a version that nobody saw run where systemd does not run", func(h host) {
			h.left("1.0.0", 90*day)
			h.unproven("1.0.0")
			h.sight.State = state.AgentUnknown
		}, "1.0.0", rollback, state.Database{}, refused("90 days old, more than the 30 days allowed")},
		{"back, too old, from a version that nobody watched, and that runs for weeks", func(h host) {
			h.left("1.0.0", 90*day)
			h.unproven("1.0.0")
			h.sight = Sight{State: state.AgentRunning, Unit: systemd.Unit{ActiveState: "active", SubState: "running", MainPID: 7, Since: noon.Add(-40 * day)}}
		}, "1.0.0", rollback, state.Database{}, refused("90 days old, more than the 30 days allowed")},
		{"back, older than a person allows", both(valid("1.0.0"), func(h host) { h.config.Spec.Backup.MaxAge = state.Duration(time.Hour) }), "1.0.0", downgrade,
			state.Database{}, refused("more than the 1h0m0s allowed")},
		{"back, from the future", func(h host) { h.left("1.0.0", -day) }, "1.0.0", downgrade, state.Database{}, refused("in the future")},
		{"back, of another cluster", valid("1.0.0"), "1.0.0", Request{Kind: Enable, Spec: elsewhere}, state.Database{}, refused(`"proxy", not to "other"`)},
		{"back, no backup, forced", func(h host) { h.keeps("1.0.0") }, "1.0.0", force(rollback), state.Database{Plan: state.BackupDatabase, Stop: true}, nil},
		{"back, not here, forced", nothing, "1.0.0", force(Request{Kind: Enable}), state.Database{Plan: state.BackupDatabase, Stop: true}, nil},
		{"back, forced without need", valid("1.0.0"), "1.0.0", force(rollback), state.Database{Plan: state.RestoreDatabase, Stop: true}, nil},

		{"forward, backup skipped", nothing, "1.2.0", skip(update), state.Database{Plan: state.KeepDatabase, Skipped: true}, nil},
		{"forward to the very version, backup skipped", valid("1.2.0"), "1.2.0", skip(update), state.Database{Plan: state.KeepDatabase, Skipped: true}, nil},
		{"back, never without a backup", valid("1.0.0"), "1.0.0", skip(downgrade), state.Database{Plan: state.RestoreDatabase, Stop: true}, nil},

		{"damaged, forward", shallow, "1.2.0", update, state.Database{}, refused("sqlite.db is damaged or not a database", "update --now --skip-backup")},
		{"damaged, forward, skipped", shallow, "1.2.0", skip(update), state.Database{Plan: state.KeepDatabase, Damaged: true}, nil},
		{"damaged, forward to the very version, skipped", both(valid("1.2.0"), shallow), "1.2.0", skip(update), state.Database{Plan: state.RestoreDatabase, Stop: true, Damaged: true}, nil},
		{"damaged, enable", shallow, "1.2.0", force(Request{Kind: Enable}), state.Database{}, refused("repair it, or move it away and restart the agent")},
		{"damaged, back", both(valid("1.0.0"), shallow), "1.0.0", downgrade, state.Database{}, refused("update --now --skip-backup")},
		{"damaged, back, skipped", both(valid("1.0.0"), shallow), "1.0.0", skip(downgrade), state.Database{Plan: state.RestoreDatabase, Stop: true, Damaged: true}, nil},
		{"damaged, back by hand", both(valid("1.0.0"), shallow), "1.0.0", rollback, state.Database{}, refused("rollback 1.0.0 --force")},
		{"damaged, back by hand, forced", both(valid("1.0.0"), shallow), "1.0.0", force(rollback), state.Database{Plan: state.RestoreDatabase, Stop: true, Damaged: true}, nil},
		{"damaged, back by hand, forced, no backup", both(func(h host) { h.keeps("1.0.0") }, shallow), "1.0.0", force(rollback),
			state.Database{Plan: state.KeepDatabase, Stop: true, Damaged: true}, nil},
		{"damaged inside, forward: the backup tells", deep, "1.2.0", update, state.Database{Plan: state.BackupDatabase}, nil},
		{"damaged inside, back: told before the agent is stopped", both(valid("1.0.0"), deep), "1.0.0", downgrade, state.Database{}, refused("damaged or not a database")},
		{"damaged inside, back by hand, forced", both(valid("1.0.0"), deep), "1.0.0", force(rollback), state.Database{Plan: state.RestoreDatabase, Stop: true, Damaged: true}, nil},
		{"a folder in its place", func(h host) { none(h); os.Mkdir(h.path(), 0o700) }, "1.2.0", update, state.Database{}, refused("sqlite.db is a folder", "--skip-backup")},
		{"a link in its place", func(h host) { none(h); os.Symlink("/etc/passwd", h.path()) }, "1.2.0", update, state.Database{}, refused("sqlite.db is a symbolic link")},
		{"a folder in its place, skipped", func(h host) { none(h); os.Mkdir(h.path(), 0o700) }, "1.2.0", skip(update), state.Database{Plan: state.KeepDatabase, Skipped: true}, nil},
		{"nobody knows where it is", func(h host) { writeFile(h.t, h.Host.Paths.AgentConfig, "teleport: [") }, "1.2.0", update, state.Database{}, refused("teleport.yaml")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newDatabaseHost(t)
			tc.prepare(h)
			req := tc.request
			req.From, req.To = h.config.Active(), state.Tree{Release: version.Release{Version: tc.to, Edition: version.OSS}}
			if tc.name == "another edition of the same version" {
				req.To.Edition = version.Enterprise
			}
			got, err := h.planDatabase(t.Context(), h.sight, h.config, req)
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
			dir := filepath.Join(h.Host.Paths.Versions(), "1.1.0", "backup")
			if req.From.Version == "" {
				dir = filepath.Join(h.Host.Paths.Original(), "backup")
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

// A backup that an earlier, failed transaction took would else be restored when the
// version is fetched again, or its mark comes back, and gone back to.
func TestAVersionThatIsNotWholeKeepsItsOwnDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(dir string) error
		want string
	}{
		"the digest is gone":    {func(dir string) error { return os.Remove(dir + "/sha256") }, "1.1.0/backup"},
		"the edition is gone":   {func(dir string) error { return os.Remove(dir + "/edition") }, "1.1.0/backup"},
		"the edition is broken": {func(dir string) error { return os.WriteFile(dir+"/edition", []byte("{[ broken\n"), 0o644) }, "1.1.0/backup"},
		"the edition is empty":  {func(dir string) error { return os.WriteFile(dir+"/edition", nil, 0o644) }, "1.1.0/backup"},
		"it is another edition": {func(dir string) error { return os.WriteFile(dir+"/edition", []byte(version.Enterprise), 0o644) }, "original/backup"},
		"the folder is gone":    {os.RemoveAll, "original/backup"},
	} {
		h := newDatabaseHost(t)
		if err := tc.harm(h.keeps("1.1.0")); err != nil {
			t.Fatal(err)
		}
		req := Request{Kind: Update, From: h.config.Active(), To: state.Tree{Release: version.Release{Version: "1.2.0", Edition: version.OSS}}}
		d, err := h.planDatabase(t.Context(), Sight{}, h.config, req)
		if err != nil || d.Dir != filepath.Join(h.Host.Paths.Versions(), tc.want) {
			t.Errorf("%s: the backup goes to %s, %v; want %s", name, d.Dir, err, tc.want)
		}
	}
}

func TestTheDatabaseIsWhereTheAgentsConfigurationSays(t *testing.T) {
	h := newDatabaseHost(t)
	dir := t.TempDir()
	h.makeDatabase(filepath.Join(dir, "proc", "sqlite.db"))
	writeFile(t, h.Host.Paths.AgentConfig, fmt.Sprintf("teleport:\n  data_dir: %s\n", dir))
	req := Request{Kind: Update, From: h.config.Active(), To: state.Tree{Release: version.Release{Version: "1.2.0", Edition: version.OSS}}}
	d, err := h.planDatabase(t.Context(), Sight{}, h.config, req)
	if want := filepath.Join(dir, "proc", "sqlite.db"); err != nil || d.Path != want || d.Plan != state.BackupDatabase {
		t.Errorf("got %+v, %v; want a backup of %s", d, err, want)
	}
}

func TestATransactionNeedsRoomToBeUndone(t *testing.T) {
	h := newDatabaseHost(t)
	h.left("1.0.0", time.Hour)
	size, err := sizeOf(h.path())
	if err != nil {
		t.Fatal(err)
	}
	itsOwn, err := sizeOf(filepath.Join(h.keeps("1.0.0"), "backup", backup.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		plan          state.DatabasePlan
		take, restore int64
	}{
		"nothing is copied":          {state.KeepDatabase, 0, 0},
		"a backup, and back":         {state.BackupDatabase, size, size + DatabaseMargin},
		"a backup, and another back": {state.RestoreDatabase, size, size + itsOwn + 2*DatabaseMargin},
	} {
		take, restore, err := RoomFor(state.Database{Plan: tc.plan, Path: h.path()}, filepath.Join(h.keeps("1.0.0"), "backup"))
		if err != nil || take != tc.take || restore != tc.restore {
			t.Errorf("%s: %d and %d bytes, %v; want %d and %d", name, take, restore, err, tc.take, tc.restore)
		}
	}
	if err := os.Truncate(h.path(), 8<<40); err != nil { // sparse
		t.Fatal(err)
	}
	if err := h.checkRoom(state.Database{Plan: state.BackupDatabase, Path: h.path()}, ""); err == nil || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("eight terabytes fit: %v", err)
	}
}

// Who can write the agent's configuration can name any folder in it.
func TestAConfigurationOfAnotherUsersNamesOnlyThatUsersDatabase(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other users are made by root")
	}
	const user, other = 1234, 1235
	for name, tc := range map[string]struct {
		config, folder int // who they belong to
		elsewhere      bool
		refused        bool
	}{
		"root's, root's":                    {0, 0, true, false},
		"root's, a user's":                  {0, user, true, false},
		"a user's, that user's":             {user, user, true, false},
		"a user's, root's":                  {user, 0, true, true},
		"a user's, another user's":          {user, other, true, true},
		"a user's, which names none of its": {user, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newDatabaseHost(t)
			path, config := h.path(), "teleport: {}"
			if tc.elsewhere {
				dir := t.TempDir()
				path, config = filepath.Join(dir, "proc", "sqlite.db"), "teleport: {data_dir: "+dir+"}"
				h.makeDatabase(path)
			}
			writeFile(t, h.Host.Paths.AgentConfig, config)
			must(t, os.Chown(h.Host.Paths.AgentConfig, tc.config, 0))
			must(t, os.Chown(filepath.Dir(path), tc.folder, 0))
			d, err := h.planDatabase(t.Context(), Sight{}, h.config, Request{Kind: Update, From: h.config.Active(), To: TreeOf(versions.Tree{Release: version.Release{Version: "1.2.0", Edition: version.OSS}})})
			if refused := failure.Is[*failure.RefusedError](err); refused != tc.refused || !refused && (err != nil || d.Plan != state.BackupDatabase || d.Path != path) {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

// Nobody is told to move a database away of which nothing is known but that it cannot be read.
func TestADatabaseThatCannotBeReadIsNotToBeMovedAway(t *testing.T) {
	for errno, says := range map[error]string{
		unix.EIO: "journalctl -k", unix.EROFS: "writable", unix.ENOSPC: "free some space", unix.EDQUOT: "free some space", unix.EACCES: "the right", unix.EPERM: "the right",
		&backup.CorruptError{Path: "/x", Detail: "malformed"}: "move it away",
		backup.ErrLocked:             "end of the process that holds the lock",
		sqlite3.CANTOPEN:             "remove the cause",
		errors.New("it is a folder"): "move it away",
		sqlite3.IOERR:                "switch without a backup by `teleport-update update --now --skip-backup`",
	} {
		err := cannotBackUp(fmt.Errorf("open it: %w", errno), "/x", Request{Kind: Update})
		if away := strings.Contains(err.Error(), "move it away"); !strings.Contains(err.Error(), says) || away != (says == "move it away") {
			t.Errorf("%v: %v", errno, err)
		}
	}
	for errno := range syscall.Errno(134) {
		if err := cannotBackUp(fmt.Errorf("open it: %w", errno), "/x", Request{Kind: Update}); strings.Contains(err.Error(), "move it away") {
			t.Errorf("%v", err)
		}
	}
}

// Who has a database open that stays locked is looked for, in the place of a command that the host may not have.
func TestALockedDatabaseNamesWhoHasItOpen(t *testing.T) {
	m := upgrade(t, twoHolds)
	holder := exec.Command("sh", "-c", "exec 3<>\"$1\"; echo; exec sleep 60", "sh", m.db)
	out, err := holder.StdoutPipe()
	must(t, err)
	must(t, holder.Start())
	defer holder.Wait()
	defer holder.Process.Kill()
	_, err = out.Read(make([]byte, 1))
	must(t, err)
	said := cannotBackUp(backup.ErrLocked, m.db, Request{Kind: Update}).Error()
	if want := fmt.Sprintf("%d sleep", holder.Process.Pid); !strings.Contains(said, want) && !strings.Contains(said, fmt.Sprintf("%d sh", holder.Process.Pid)) {
		t.Errorf("%s; want it to name %q", said, want)
	}
	if said := cannotBackUp(backup.ErrLocked, "/nonexistent", Request{Kind: Update}).Error(); !strings.Contains(said, "or end it, then run") {
		t.Errorf("where nobody can be seen: %s", said)
	}
}
