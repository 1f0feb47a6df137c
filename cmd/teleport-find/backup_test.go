package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kept is a store, the server that uses it, and a person with the command line.
type kept struct {
	t      *testing.T
	dir    string
	server *process
}

func newKept(t *testing.T) *kept {
	t.Helper()
	k := &kept{t: t, dir: t.TempDir()}
	k.start()
	return k
}

func (k *kept) store() string { return filepath.Join(k.dir, "store", "store.db") }

func (k *kept) start() {
	k.t.Helper()
	k.server = serveProcess(k.t, nil, "--listen", "127.0.0.1:0", "--store", k.store(), "--admin-socket", filepath.Join(k.dir, "admin.sock"),
		"--metrics-listen", "127.0.0.1:0")
}

func (k *kept) stop() {
	k.t.Helper()
	if code := k.server.stop(syscall.SIGTERM); code != 0 {
		k.t.Fatalf("the server ends with %d:\n%s", code, k.server.log.String())
	}
}

// run returns both outputs, and the exit code.
func (k *kept) run(args ...string) (string, int) {
	k.t.Helper()
	cmd := exec.Command(binary(k.t), args...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "TELEPORT_FIND_ADMIN_SOCKET="+filepath.Join(k.dir, "admin.sock"), "TELEPORT_FIND_STORE="+k.store())
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

func (k *kept) must(args ...string) string {
	k.t.Helper()
	out, code := k.run(args...)
	if code != 0 {
		k.t.Fatalf("%q ends with %d:\n%s", args, code, out)
	}
	return out
}

// eventually waits until hosts are told something.
func (k *kept) eventually(version string, now bool) {
	k.t.Helper()
	for range 600 {
		if a := k.server.ask(""); a.Version == version && a.AutoUpdate == now {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	k.t.Fatalf("hosts are told %+v; want %s, %t", k.server.ask(""), version, now)
}

// A backup is made while the server runs, and put back while it does not. Nothing that
// has happened since goes on by itself: no host is told to update.
func TestABackupIsPutBackSuspended(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and starts servers")
	}
	k := newKept(t)
	k.must("set-version", "15.2.0", "--schedule", "immediate")
	k.must("mode", "enabled")
	k.must("token", "add", "web")
	k.eventually("15.2.0", true)
	says := k.must("backup", "saved.db")
	items, _, counted := strings.Cut(strings.TrimPrefix(says, "saved.db holds "), ", revision ")
	if !counted || !strings.Contains(says, "(token add web)") {
		t.Errorf("backup says:\n%s", says)
	}
	k.must("token", "revoke", "web")
	k.must("token", "add", "db")
	k.must("set-version", "15.3.0", "--schedule", "immediate")
	k.eventually("15.3.0", true)

	foreseen := k.must("restore", "saved.db", "--dry-run")
	for _, want := range []string{
		"it would restore: " + items, "undone: ", "must not be): token web\n", "join again): token db\n",
		"the rollout, as of the backup: 15.2.0", "updates are suspended",
	} {
		if !strings.Contains(foreseen, want) {
			t.Errorf("%q is not said:\n%s", want, foreseen)
		}
	}
	if out, code := k.run("restore", "saved.db"); code != 1 || !strings.Contains(out, "systemctl stop teleport-find") {
		t.Errorf("while the server runs: %d, %s", code, out)
	}
	k.eventually("15.3.0", true)
	k.stop()

	var out restored
	if err := json.Unmarshal([]byte(k.must("restore", "saved.db", "--reason", "the disk was lost", "-o", "json")), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Undone) < 3 || fmt.Sprint(out.ValidAgain, out.Lost) != "[token web] [token db]" || !out.Suspended || out.DryRun {
		t.Errorf("restore says %+v", out)
	}
	if _, err := os.Stat(out.Kept); err != nil {
		t.Errorf("the store of before is not kept: %v", err)
	}
	k.start()
	k.eventually("15.2.0", false)
	if says := k.must("history"); !strings.Contains(says, "restore") || !strings.Contains(says, "the disk was lost") {
		t.Errorf("the history is\n%s", says)
	}
	if says := k.must("status"); !strings.Contains(says, "suspended") {
		t.Errorf("status says\n%s", says)
	}
	k.must("mode", "enabled")
	k.eventually("15.2.0", true)
	if says := k.must("token"); !strings.Contains(says, "web ") || strings.Contains(says, "db ") {
		t.Errorf("tokens are\n%s", says)
	}
}

func TestBackupsInAFolderAreKeptInNumber(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes many backups")
	}
	k := newKept(t)
	folder := filepath.Join(k.dir, "backups")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"store-20200101T000000Z.db", "store-20200102T000000Z.db", "store-20200103T000000Z.db", "store-mine.db", "notes",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.must("backup", "backups", "--keep", "2")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 4 || names[1] != "store-20200103T000000Z.db" || names[3] != "store-mine.db" {
		t.Errorf("there is %q", names)
	}
	for _, args := range [][]string{{"backup"}, {"backup", "x.db", "--keep", "2"}, {"backup", "backups", "--keep", "0"}, {"restore"}} {
		if out, code := k.run(args...); code != 2 {
			t.Errorf("%q ends with %d: %s", args, code, out)
		}
	}
	if out, code := k.run("backup", "x.db", "--store", "nothing/store.db"); code != 1 || !strings.Contains(out, "no such file") {
		t.Errorf("a backup of nothing: %d, %s", code, out)
	}
}
