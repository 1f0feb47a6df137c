//go:build hosts

package integration

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/internal/version"
)

// An agent that came onto the host without the updater.
type foreignAgent struct{ binDir, unitDir string }

var foreignAgents = map[string]foreignAgent{
	"by hand":      {"/usr/local/bin", "/usr/local/lib/systemd/system"},
	"by a package": {"/usr/bin", "/usr/lib/systemd/system"},
}

func TestAnAgentThatIsHereAlreadyIsTakenOver(t *testing.T) {
	for how, a := range foreignAgents {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			s.sound("1.0.0")
			s.runForeign("0.9.0", a)
			rows := s.rowsOf("0.9.0")

			s.wants("1.0.0")
			s.enable("--health-window", "1s")
			s.serves("1.0.0")
			if now := s.rowsOf("0.9.0"); now < rows {
				t.Errorf("of %d rows of the agent's database %d are left", rows, now)
			}
			if got := s.Show("teleport", "FragmentPath"); got != unitFile {
				t.Errorf("systemd uses the unit %s", got)
			}
			// The agent's folder is root's alone, and tsh is in it now.
			tsh := []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", linkDir + "/tsh", "version"}
			if s.Try(tsh...).Code == 0 || !strings.Contains(s.Log(""), "closed to others; chmod o+x opens it folder=/var/lib/teleport mode=") {
				t.Errorf("an ordinary user runs tsh, or nobody says why not")
			}
			s.Must("chmod", "o+x", "/var/lib/teleport")
			s.Must(tsh...)
			if r := s.status(); r.Unproven || text(r.LastResult) != "succeeded" {
				t.Errorf("status: unproven %v, last result %s", r.Unproven, text(r.LastResult))
			}
			if err := s.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.serves("1.0.0")
		})
	}
}

func TestAFailedFirstEnablePutsEverythingBack(t *testing.T) {
	for how, a := range foreignAgents {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			s.release(release.Spec{Version: "1.0.0", Variant: stamp.DiesOnReload, Schema: 2})
			s.runForeign("0.9.0", a)
			rows := s.rowsOf("0.9.0")
			s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
			before := s.Tree(theHost...)

			s.wants("1.0.0")
			s.fails(1, "version 1.0.0 did not hold and was rolled back", updater, "enable",
				"--proxy", proxyAddress, "--template", templateURL, "--health-window", "1s")
			s.Unchanged(before, s.Tree(theHost...), agentState, store)
			s.onlyOutcomeIsLeft()
			host.Wait(t, patience, func() error { return s.executes(a.binDir + "/teleport") })
			if now := s.rowsOf("0.9.0"); now < rows {
				t.Errorf("of %d rows of the agent's database %d are left", rows, now)
			}
			r := s.status()
			if r.State != installer.StateDisabled || text(r.LastResult) != "rolled_back" || text(r.FailedVersion) != "1.0.0" || r.VersionInstalled != nil {
				t.Errorf("status: %s, last result %s, failed %s, installed %s", r.State, text(r.LastResult), text(r.FailedVersion), text(r.VersionInstalled))
			}

			// Nothing of it stands in the way of the next one.
			s.sound("1.0.1")
			s.wants("1.0.1")
			s.enable("--health-window", "1s")
			s.serves("1.0.1")
		})
	}
}

func TestWhatStandsInTheWayIsNamedAndLeftAlone(t *testing.T) {
	unit := release.Unit{LinkDir: "/usr/local/bin"}.Text()
	for name, tc := range map[string]struct {
		obstacle func(s *scene)
		says     string
	}{
		"an administrator's unit": {
			func(s *scene) { s.Write("/etc/systemd/system/teleport.service", unit) },
			"/etc/systemd/system/teleport.service takes precedence",
		},
		"a masked unit": {
			func(s *scene) { s.Must("systemctl", "mask", "teleport.service") },
			"teleport.service is masked",
		},
		"another updater's configuration": {
			func(s *scene) { s.Write("/opt/teleport/default/update.yaml", "version: v1\n") },
			"managed by another updater (/opt/teleport/default/update.yaml)",
		},
		"another updater's unit": {
			func(s *scene) {
				s.Write("/etc/systemd/system/teleport-update.service", "[Service]\nExecStart=/bin/true\n")
			},
			"managed by another updater (/etc/systemd/system/teleport-update.service)",
		},
		"the updater's own service, masked": {
			func(s *scene) { s.Must("ln", "-s", "/dev/null", "/etc/systemd/system/teleport-update.service") },
			"teleport-update.service is masked: `systemctl unmask teleport-update.service` first",
		},
		"the timer of Teleport's older updater": {
			func(s *scene) {
				s.Write("/lib/systemd/system/teleport-upgrade.timer", "[Timer]\nOnCalendar=daily\n")
			},
			"/systemd/system/teleport-upgrade.timer)",
		},
		"a drop-in that starts something else": {
			func(s *scene) {
				s.Write("/etc/systemd/system/teleport.service.d/own.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/sleep 9\n")
			},
			"look at /etc/systemd/system/teleport.service.d/own.conf",
		},
		"a folder where a link must go": {
			func(s *scene) { s.Write("/usr/local/bin/tsh/README", "mine") },
			"/usr/local/bin/tsh is a folder",
		},
		"somebody else's unit under our name": {
			func(s *scene) {
				s.Write("/usr/local/lib/systemd/system/teleport-update.service", "[Service]\nExecStart=/bin/true\n")
			},
			"/usr/local/lib/systemd/system/teleport-update.service is not teleport-update's own unit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.sound("1.0.0")
			s.wants("1.0.0")
			s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
			tc.obstacle(s)
			s.Must("systemctl", "daemon-reload")
			before := s.Tree(theHost...)
			s.fails(1, tc.says, updater, "enable", "--proxy", proxyAddress, "--template", templateURL)
			s.Unchanged(before, s.Tree(theHost...), "/var/lib/teleport")
			s.onlyOutcomeIsLeft()
			if r := s.status(); r.FailedVersion != nil {
				t.Errorf("version %s is blamed for it", *r.FailedVersion)
			}
		})
	}
}

// An update is stopped by it before the agent's database is backed up, every ten
// minutes if need be.
func TestADropInThatStartsSomethingElseStopsUpdatesEarly(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	s.running("1.0.0", "--health-window", "1s")
	dropIn := "/etc/systemd/system/teleport.service.d/own.conf"
	s.Write(dropIn, "[Service]\nExecStart=\nExecStart=/usr/bin/sleep 9\n")
	s.Must("systemctl", "daemon-reload")
	s.wants("1.1.0")
	s.fails(1, "look at "+dropIn, updater, "update")
	if out := s.Try(updater, "verify"); out.Code != 1 || !strings.Contains(out.Stdout, "look at "+dropIn) {
		t.Errorf("verify ends with %d:\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
	s.serves("1.0.0")
	s.switched(0, "1.1.0")
	if r := s.status(); r.FailedVersion != nil || !strings.Contains(text(r.LastError), dropIn) {
		t.Errorf("status: failed %s, last error %s", text(r.FailedVersion), text(r.LastError))
	}

	s.Must("rm", dropIn)
	s.Must("systemctl", "daemon-reload")
	if code := s.tick(); code != 0 {
		t.Errorf("without it the next tick ends with %d", code)
	}
	s.serves("1.1.0")
}

// A mirror, or a mistake of a release, says what systemd is to start. It is not an
// administrator's doing, so the version is not tried again at each tick.
func TestAVersionWhoseUnitStartsSomethingElseIsUndoneAndRemembered(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.release(release.Spec{Version: "1.1.0", Files: []release.File{
		{Name: "examples/systemd/teleport.service", Data: []byte("[Service]\nExecStart=/usr/bin/sleep 9\n")},
	}})
	s.running("1.0.0", "--health-window", "1s")
	pid := s.pid()
	s.wants("1.1.0")
	s.fails(1, "the unit that version 1.1.0 brings starts /usr/bin/sleep", updater, "update")
	s.serves("1.0.0")
	if s.pid() != pid {
		t.Error("the agent was restarted for it")
	}
	if r := s.status(); text(r.FailedVersion) != "1.1.0" || r.State != installer.StateBackingOff {
		t.Errorf("status: %s, failed %s", r.State, text(r.FailedVersion))
	}
}

// theHost is what an updater might touch.
var theHost = []string{
	"/etc", "/opt", "/root", "/tmp", "/usr/bin", "/usr/lib/systemd", "/usr/local", "/var/lib/systemd", "/var/lib/teleport", "/var/tmp",
}

// agentState is what a running agent changes all the time.
const agentState = "/var/lib/teleport/proc"

// onlyOutcomeIsLeft asserts that a failed first enable left nothing of its own
// but what may stay: the outcome, caches, locks.
func (s *scene) onlyOutcomeIsLeft() {
	s.t.Helper()
	names, err := s.Names(store)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range names {
		if !slices.Contains([]string{"updates.yaml", "find.json", "update.lock", "fetch.lock", "partial"}, name) {
			s.t.Errorf("%s is left in the version store", name)
		}
	}
	if s.Exists(store+"/updates.yaml") && (strings.Contains(s.Read(store+"/updates.yaml"), proxyAddress) || s.status().UpdatesEnabled) {
		s.t.Errorf("the configuration was written:\n%s", s.Read(store+"/updates.yaml"))
	}
	if units := s.Must("systemctl", "list-units", "--all", "--plain", "--no-legend", "teleport-update*"); units != "" {
		s.t.Errorf("units are left:\n%s", units)
	}
}

// runForeign installs a release without the updater and starts it.
func (s *scene) runForeign(v string, a foreignAgent) {
	s.t.Helper()
	s.sound(v)
	files := s.t.TempDir()
	tarball := filepath.Join(s.releases, release.Name(v, version.OSS))
	if out, err := exec.CommandContext(s.t.Context(), "tar", "-xzf", tarball, "-C", files).CombinedOutput(); err != nil {
		s.t.Fatalf("unpack %s: %v\n%s", tarball, err, out)
	}
	for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
		s.Put(filepath.Join(files, "teleport", name), path.Join(a.binDir, name))
	}
	s.Write(path.Join(a.unitDir, "teleport.service"), release.Unit{LinkDir: a.binDir, RestartDelay: 300 * time.Millisecond}.Text())
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "enable", "--now", "teleport")
	host.Wait(s.t, patience, func() error {
		if err := s.executes(a.binDir + "/teleport"); err != nil {
			return err
		}
		if s.rowsOf(v) == 0 {
			return fmt.Errorf("the agent has not written anything yet")
		}
		return nil
	})
}

// executes tells whether that is what the agent's main process executes.
func (s *scene) executes(file string) error {
	s.t.Helper()
	// A process that was never stopped may run from a file that was put back.
	if got := strings.TrimSuffix(s.MainExecutable("teleport"), " (deleted)"); got != file {
		return fmt.Errorf("the agent executes %q; want %q", got, file)
	}
	return nil
}

// rowsOf counts what a version has written to the agent's database.
func (s *scene) rowsOf(v string) int {
	s.t.Helper()
	var n int
	r := s.Try("sqlite3", "-cmd", ".timeout 5000", "/var/lib/teleport/proc/sqlite.db", "SELECT count(*) FROM rows WHERE version = '"+v+"'")
	fmt.Sscan(r.Stdout, &n)
	return n
}
