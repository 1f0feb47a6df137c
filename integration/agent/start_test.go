package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/internal/version"
)

func TestMain(m *testing.M) { os.Exit(host.Main(m, host.Agent())) }

func TestTheVersionLineIsTeleports(t *testing.T) {
	p := newPlace(t)
	for edition, want := range map[version.Edition]string{
		version.OSS:        "Teleport v1.1.0 git:v1.1.0-0-gabc1234 " + runtime.Version(),
		version.Enterprise: "Teleport Enterprise v1.2.0 git:v1.2.0-0-gabc1234 " + runtime.Version(),
		version.FIPS:       "Teleport Enterprise v1.3.0 git:v1.3.0-0-gabc1234 " + runtime.Version() + " X:boringcrypto",
	} {
		s := sound(regexp.MustCompile(`\d\.\d\.\d`).FindString(want))
		s.Edition = edition
		p.install(s)
		if out, err := exec.Command(p.path("teleport"), "version").Output(); err != nil || string(out) != want+"\n" {
			t.Errorf("%s: %q, %v; want %q", edition, out, err, want)
		}
	}
}

func TestASoundAgentServesAndKeepsItsState(t *testing.T) {
	p := newPlace(t)
	p.install(as("1.0.0", stamp.Sound, 1))
	agent := p.start()
	if pid := p.serves("1.0.0"); pid != agent.Process.Pid || p.pidFile() != pid {
		t.Errorf("PID %d serves, the PID file says %d; want %d", pid, p.pidFile(), agent.Process.Pid)
	}
	if id, err := os.ReadFile(p.path("data/host_uuid")); err != nil || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).Match(id) {
		t.Errorf("host_uuid holds %q, %v", id, err)
	}
	host.Wait(t, 10*time.Second, func() error {
		who, err := p.who()
		if err == nil && who.LastRow < 5 {
			err = os.ErrDeadlineExceeded
		}
		return err
	})
	if out, err := exec.Command("pkill", "-TERM", "-L", "-F", p.path("pid")).CombinedOutput(); err != nil {
		t.Fatalf("pkill wants the PID file locked: %v %s", err, out)
	}
	if code := p.code(agent); code != 0 {
		t.Errorf("exit code %d after SIGTERM", code)
	}
	first := p.report()
	if first.Schema != 1 || first.JournalMode != "wal" || first.Integrity != "ok" || first.Rows < 5 || first.Rows != first.Last {
		t.Errorf("the database holds %+v", first)
	}
	id, _ := os.ReadFile(p.path("data/host_uuid"))

	p.install(as("1.1.0", stamp.Sound, 3))
	agent = p.start()
	p.serves("1.1.0")
	agent.Process.Signal(syscall.SIGQUIT)
	if code := p.code(agent); code != 0 {
		t.Errorf("exit code %d after SIGQUIT", code)
	}
	if r := p.report(); r.Schema != 3 || len(r.Migrations) != 3 || r.Migrations[0].Version != "1.0.0" || r.Migrations[2].Version != "1.1.0" ||
		r.ByVersion["1.0.0"] != first.Rows {
		t.Errorf("after the migration the database holds %+v", r)
	}
	if again, _ := os.ReadFile(p.path("data/host_uuid")); string(again) != string(id) {
		t.Errorf("host_uuid changed from %s to %s", id, again)
	}

	p.install(as("1.2.0", stamp.Sound, 2))
	if code := p.code(p.start()); code != 1 {
		t.Errorf("exit code %d on a newer schema; want 1", code)
	}
	p.logged("the database has schema 3, this is version 1.2.0 and knows schema 2 at most")
}

func TestTheRateOfRowsIsKept(t *testing.T) {
	p := newPlace(t)
	p.install(sound("1.0.0"))
	config := "teleport: {diag_addr: '127.0.0.1:0'}\nstand_in: {rows_per_second: 1000, journal_mode: delete}\n"
	if err := os.WriteFile(p.path("config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	agent := p.start()
	p.serves("1.0.0")
	// What it could not write while it was kept waiting, it makes up for; so does
	// this test where it asked late.
	begun, before := time.Now(), must(t, p)
	host.Wait(t, host.Patience, func() error {
		took := time.Since(begun)
		rate := float64(must(t, p)-before) / took.Seconds()
		if took < 500*time.Millisecond || rate < 500 || rate > 1500 {
			return fmt.Errorf("%.0f rows a second in %v; want about 1000", rate, took)
		}
		return nil
	})
	agent.Process.Signal(syscall.SIGTERM)
	p.code(agent)
	if r := p.report(); r.JournalMode != "delete" || r.Rows != r.Last {
		t.Errorf("the database holds %+v", r)
	}
}

func must(t *testing.T, p *place) int64 {
	who, err := p.who()
	if err != nil {
		t.Fatal(err)
	}
	return who.LastRow
}

func TestStartsThatFail(t *testing.T) {
	p := newPlace(t)
	for i, tc := range []struct {
		variant stamp.Variant
		args    []string
		code    int
		logged  string
		schema  int64 // of the database afterwards; 0: not created
	}{
		{stamp.Unrunnable, nil, 1, "cannot run", 0},
		{stamp.ExitsAtStart, nil, 1, "exits at start", 0},
		{stamp.ExitsZero, nil, 0, "Starting", 0},
		{stamp.DiesOnReload, nil, 1, "dies when it is handed over to", 0},
		{stamp.MigratesThenExits, nil, 1, "exits after it has migrated", 2},
		{stamp.CrashLoops, nil, 1, "crashes", 2},
		{stamp.Sound, []string{"--config", "/none"}, 1, "read configuration: open /none", 0},
		{stamp.Sound, []string{"--diag-addr", "192.0.2.1:1"}, 1, "listen for diagnostics", 2},
	} {
		t.Run(string(tc.variant)+strings.Join(tc.args, " "), func(t *testing.T) {
			q := *p
			q.t, q.logs = t, newLog(t)
			q.install(as("1.0."+strconv.Itoa(i), tc.variant, 2))
			if code := q.code(q.start(tc.args...)); code != tc.code {
				t.Errorf("exit code %d; want %d", code, tc.code)
			}
			q.logged(tc.logged)
			if _, err := os.Stat(p.path("data/proc/sqlite.db")); (err == nil) != (tc.schema != 0) {
				t.Errorf("the database: %v", err)
			} else if err == nil && q.report().Schema != tc.schema {
				t.Errorf("the database holds %+v", q.report())
			}
			os.RemoveAll(p.path("data"))
		})
	}
}

func TestNeverReadyServesAndSaysSo(t *testing.T) {
	p := newPlace(t)
	p.install(as("1.0.0", stamp.NeverReady, 1))
	p.start()
	p.logged("Started.")
	if body, status, err := p.get("/readyz"); err != nil || status != 503 {
		t.Errorf("readyz: %d %s, %v; want 503", status, body, err)
	}
	if _, status, err := p.get("/healthz"); err != nil || status != 200 {
		t.Errorf("healthz: %d, %v; want 200", status, err)
	}
}

func TestHangsOnStopIgnoresStops(t *testing.T) {
	p := newPlace(t)
	p.install(as("1.0.0", stamp.HangsOnStop, 1))
	agent := p.start()
	p.serves("1.0.0")
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		agent.Process.Signal(s)
		p.logged("signal=" + s.String())
	}
	p.serves("1.0.0")
}
