package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"teleport-update/find/store/postgres/pgtest"
)

// Two servers share a database: what is set at one is told by the other. While the database is away both answer hosts, and
// nothing is forgotten.
func TestServersShareADatabase(t *testing.T) {
	database := pgtest.Start(t)
	address := database.Database("find")
	database.SQL("postgres", "ALTER USER postgres PASSWORD 'open sesame'")
	one, other := onDatabase(t, address), onDatabase(t, address)
	one.must("set-version", "15.2.0", "--schedule", "immediate")
	one.must("enable")
	other.eventually("15.2.0", true)
	database.Kill()
	for _, k := range []*kept{one, other} {
		if a := k.server.ask(""); a.Version != "15.2.0" || !a.AutoUpdate {
			t.Errorf("while the database is away, hosts are told %+v", a)
		}
	}
	if out, code := other.run("suspend", "--reason", "a test"); code != 1 || !strings.Contains(out, "not yet written") {
		t.Errorf("suspend without a database ends with %d: %s", code, out)
	}
	database.Boot()
	one.eventually("15.2.0", false)
	for _, k := range []*kept{one, other} {
		if strings.Contains(k.server.log.String(), "sesame") {
			t.Error("the log has the password")
		}
	}
}

func onDatabase(t *testing.T, address string) *kept {
	t.Helper()
	k := &kept{t: t, dir: t.TempDir()}
	password := filepath.Join(k.dir, "password")
	write(t, password, "open sesame\n")
	k.server = serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", address, "--store-password-file", password, "--admin-socket", filepath.Join(k.dir, "admin.sock"))
	return k
}

func TestAStoreIsTakenToADatabaseAndBack(t *testing.T) {
	database := pgtest.Start(t)
	address := database.Database("find")
	k := newKept(t)
	k.must("set-version", "15.2.0", "--schedule", "immediate")
	k.must("enable")
	before := k.must("history")
	k.stop()
	if out := k.must("store", "copy", k.store(), address); !strings.Contains(out, "begins a new epoch") || strings.Contains(out, "postgres@") {
		t.Errorf("it says %q", out)
	}
	if out, code := k.run("store", "copy", k.store(), address); code != 1 || !strings.Contains(out, "nothing was copied") {
		t.Errorf("a second copy ends with %d: %s", code, out)
	}
	back := filepath.Join(k.dir, "back", "store.db")
	if out := k.must("store", "copy", address, back, "-o", "json"); !strings.Contains(out, `"new_revision":`) {
		t.Errorf("it says %q", out)
	}
	if err := os.RemoveAll(filepath.Dir(k.store())); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Dir(back), filepath.Dir(k.store())); err != nil {
		t.Fatal(err)
	}
	k.start()
	k.eventually("15.2.0", true)
	if after := k.must("history"); after != before {
		t.Errorf("the history is\n%s\nand was\n%s", after, before)
	}
	k.server.stop(syscall.SIGTERM)
	for _, args := range [][]string{{"backup", "b.db", "--store", address}, {"restore", "b.db", "--store", address}} {
		if out, code := k.run(args...); code != 2 || !strings.Contains(out, "pg_dump") {
			t.Errorf("%v ends with %d: %s", args, code, out)
		}
	}
}
