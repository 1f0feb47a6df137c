package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// released are the releases beside which today's server has to run, while the servers of
// a store are upgraded one after the other, and the commits that they were built from.
var released = []struct{ version, commit string }{
	{"0.1.0", "5e6dbc73999acdc583dcd8f0c00ba5d537ddccb9"},
}

// releasedServer is the program of a release, built from its commit. In a copy of the
// source that has not got its history nothing is tested.
func releasedServer(t *testing.T, commit string) string {
	t.Helper()
	archive, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "archive", "--format=tar", commit).Output()
	if err != nil {
		t.Skipf("SKIPPED, nothing was tested: commit %s is not here: %v", commit, err)
	}
	dir := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(archive)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	program := filepath.Join(dir, "teleport-find")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/teleport-find")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// peer is one of two servers on one store.
type peer struct {
	t               *testing.T
	program, socket string
	server          *process
}

func (p *peer) start(store string) {
	p.t.Helper()
	p.server = serveProgram(p.t, p.program, nil, "--listen", "127.0.0.1:0", "--store", store, "--admin-socket", p.socket)
}

func (p *peer) try(args ...string) (string, error) {
	cmd := exec.Command(p.program, args...)
	cmd.Env = append(os.Environ(), "TELEPORT_FIND_ADMIN_SOCKET="+p.socket)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *peer) run(args ...string) string {
	p.t.Helper()
	out, err := p.try(args...)
	if err != nil {
		p.t.Fatalf("%s %q: %v\n%s", p.program, args, err, out)
	}
	return out
}

// waitForAnswer waits until a server tells hosts of a group something.
func (p *peer) waitForAnswer(group, version string, update bool) {
	p.t.Helper()
	for range 150 {
		if a := p.server.ask(group); a.Version == version && a.AutoUpdate == update {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.t.Fatalf("%s tells hosts of %s %+v; want %s, %t\n%s", p.program, group, p.server.ask(group), version, update, first(p.try("status")))
}

func first(says string, _ error) string { return says }

const twoGroups = `kind: autoupdate_config
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
        - {name: dev, days: ["*"], start_hour: 0}
        - {name: prod, days: ["*"], start_hour: 0, wait_hours: 1}
`

// A server of a release and today's, on one store: what is said to either of them, both
// printResult hosts, as far as the older one knows it; neither takes away what the other has
// written.
func TestServersOfAReleaseAndTodaysShareAStore(t *testing.T) {
	if testing.Short() {
		t.Skip("the servers of releases take some seconds to build")
	}
	for _, r := range released {
		t.Run(r.version, func(t *testing.T) {
			dir := t.TempDir()
			store := filepath.Join(dir, "store", "store.db")
			older := &peer{t: t, program: releasedServer(t, r.commit), socket: filepath.Join(dir, "older.sock")}
			newer := &peer{t: t, program: binary(t), socket: filepath.Join(dir, "newer.sock")}
			older.start(store)
			config := filepath.Join(dir, "config.yaml")
			write(t, config, twoGroups)
			older.run("apply", "-f", config)
			older.run("set-version", "15.3.0", "--start", "15.2.0")
			newer.start(store)
			both := func(group, version string, update bool) {
				t.Helper()
				older.waitForAnswer(group, version, update)
				newer.waitForAnswer(group, version, update)
			}
			both("dev", "15.2.0", false)
			newer.run("start-update", "dev", "--force")
			both("dev", "15.3.0", true)
			older.run("start-update", "prod", "--force")
			both("prod", "15.3.0", true)
			older.run("suspend", "--reason", "the older one says so")
			both("dev", "15.3.0", false)
			newer.run("enable")
			both("dev", "15.3.0", true)

			// What only the newer one knows stays.
			newer.run("tokens", "add", "web", "--hosts", "5")
			older.run("tokens", "add", "db")
			bounds := func() (bound int, names string) {
				var list struct {
					Tokens []struct {
						Name     string `json:"name"`
						MaxHosts int    `json:"max_hosts"`
					} `json:"tokens"`
				}
				if err := json.Unmarshal([]byte(newer.run("tokens", "-o", "json")), &list); err != nil {
					t.Fatal(err)
				}
				for _, one := range list.Tokens {
					names += one.Name + " "
					bound += one.MaxHosts
				}
				return bound, names
			}
			for range 100 {
				if _, names := bounds(); names == "db web " {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if bound, names := bounds(); bound != 5 || names != "db web " {
				t.Errorf("tokens are %s, for %d hosts", names, bound)
			}
			saved := filepath.Join(dir, "saved.db")
			newer.run("backup", saved, "--store", store)

			// Of a rollout with a field that it does not know, the older one keeps the answers
			// that it had, says so, and changes nothing.
			newer.run("rollback", "prod")
			newer.waitForAnswer("prod", "15.2.0", true)
			older.waitForAnswer("prod", "15.3.0", true)
			says, err := older.try("status")
			if err == nil || !strings.Contains(says, "unknown field") || !strings.Contains(says, "hosts are told what they were told before") {
				t.Errorf("status of the older one: %v\n%s", err, says)
			}
			time.Sleep(2 * time.Second) // in which it would write
			newer.waitForAnswer("prod", "15.2.0", true)
			older.server.stop(syscall.SIGTERM)
			newer.server.stop(syscall.SIGTERM)

			// The way back is a backup from before, which the newer one restores.
			newer.run("restore", saved, "--store", store)
			older.start(store)
			older.waitForAnswer("dev", "15.3.0", false)
			older.run("enable")
			older.waitForAnswer("dev", "15.3.0", true)
			if says = older.run("history"); !strings.Contains(says, "restore") || !strings.Contains(says, "the older one says so") {
				t.Errorf("its history is\n%s", says)
			}
		})
	}
}
