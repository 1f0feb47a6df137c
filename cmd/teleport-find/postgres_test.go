package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"teleport-update/find/store/postgres/pgtest"
)

// Two servers share a database: what is set at one is told by the other. While the database is away both answer hosts,
// and let none update.
func TestServersShareADatabase(t *testing.T) {
	database := pgtest.Start(t)
	address := database.Database("find")
	database.SQL("postgres", "ALTER USER postgres PASSWORD 'open sesame'")
	one, other := onDatabase(t, address), onDatabase(t, address)
	one.must("set-version", "15.2.0", "--schedule", "immediate")
	one.must("mode", "enabled")
	other.eventually("15.2.0", true)
	database.Kill()
	for _, k := range []*kept{one, other} {
		k.eventually("15.2.0", false)
	}
	if out, code := other.run("mode", "suspended", "--reason", "a test"); code != 1 || !strings.Contains(out, "no host is told to update") {
		t.Errorf("suspend without a database ends with %d: %s", code, out)
	}
	database.Boot()
	one.eventually("15.2.0", true)
	for _, k := range []*kept{one, other} {
		if strings.Contains(k.server.log.String(), "sesame") {
			t.Error("the log has the password")
		}
	}
}

// A server that starts while its database is away lives, is not ready and says why, and serves once the database is
// there. A hangup does not end it, and a signal does.
func TestAServerWaitsForItsDatabase(t *testing.T) {
	database := pgtest.Start(t)
	address := database.Database("find")
	database.Kill()
	start := func() (*process, *exec.Cmd) {
		p := &process{t: t}
		p.cmd = exec.Command(binary(t), "serve", "--listen", "127.0.0.1:0", "--store", address, "--metrics-listen", "127.0.0.1:0",
			"--admin-socket", filepath.Join(t.TempDir(), "admin.sock"))
		p.cmd.Stderr, p.cmd.Stdout = &p.log, &p.out
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		})
		return p, p.cmd
	}
	p, cmd := start()
	metrics := metricsOf(t, p)
	if code, text := scrape(t, metrics+"/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(text, "store: ") ||
		!strings.Contains(text, "there is no socket of a database") && !strings.Contains(text, "nothing listens at the address") {
		t.Errorf("it is ready: %d, %s", code, text)
	}
	if code, text := scrape(t, metrics+"/livez"); code != http.StatusOK {
		t.Errorf("it is not alive: %d, %s", code, text)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	database.Boot()
	p.until("the server does not serve", func() bool { return strings.Contains(p.log.String(), "msg=serving ") })
	found := regexp.MustCompile(`msg="serving metrics" address=(\S+)`).FindAllStringSubmatch(p.log.String(), -1)
	if len(found) != 2 {
		t.Fatalf("the log is\n%s", p.log.String())
	}
	p.until("the server is not ready", func() bool {
		code, _ := scrape(t, "http://"+found[1][1]+"/readyz")
		return code == http.StatusOK
	})
	end := func(cmd *exec.Cmd) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ends with %v", err)
		}
	}
	end(cmd)
	database.Kill()
	p, cmd = start()
	metricsOf(t, p)
	end(cmd)
}

func onDatabase(t *testing.T, address string) *kept {
	t.Helper()
	k := &kept{t: t, dir: t.TempDir()}
	password := filepath.Join(k.dir, "password")
	write(t, password, "open sesame\n")
	k.server = serveProcess(t, nil, "--listen", "127.0.0.1:0", "--store", address, "--store-password-file", password,
		"--admin-socket", filepath.Join(k.dir, "admin.sock"), "--metrics-listen", "127.0.0.1:0")
	return k
}

// A backup of a file is restored into a database, and a backup of the database into a file. Each begins suspended.
func TestABackupIsRestoredIntoADatabaseAndBack(t *testing.T) {
	database := pgtest.Start(t)
	address := database.Database("find")
	k := newKept(t)
	k.must("set-version", "15.2.0", "--schedule", "immediate")
	k.must("mode", "enabled")
	k.stop()
	k.must("backup", "saved.db")
	for _, dry := range []string{"--dry-run", "--reason=the database is there"} {
		if out := k.must("restore", "saved.db", "--store", address, dry); !strings.Contains(out, "updates are suspended") || strings.Contains(out, "postgres@") {
			t.Errorf("%s says %q", dry, out)
		}
	}
	for _, dry := range []string{"--dry-run=true", "--dry-run=false"} {
		if out, code := k.run("restore", "saved.db", "--store", address, dry); code != 1 || !strings.Contains(out, "name an empty one") {
			t.Errorf("into a database in use, %s, ends with %d: %s", dry, code, out)
		}
	}
	if out, code := k.run("restore", "saved.db", "--store", address, "--damaged"); code != 2 || !strings.Contains(out, "--damaged is for a file") {
		t.Errorf("--damaged ends with %d: %s", code, out)
	}
	on := onDatabase(t, address)
	on.eventually("15.2.0", false)
	on.must("mode", "enabled", "--reason", "in the database")
	on.eventually("15.2.0", true)
	on.must("backup", filepath.Join(k.dir, "back.db"), "--store", address)
	on.stop()
	if out := k.must("restore", "back.db"); !strings.Contains(out, "the store of before: ") || !strings.Contains(out, "updates are suspended") {
		t.Errorf("it says %q", out)
	}
	k.start()
	k.eventually("15.2.0", false)
	if history := k.must("history"); !strings.Contains(history, "in the database") || !strings.Contains(history, "the database is there") {
		t.Errorf("the history is\n%s", history)
	}
}
