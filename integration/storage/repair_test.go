//go:build hosts

package storage

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

func TestTheNextTickRepairsWhatSomebodyBroke(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	pid, unit := s.PID(), s.Read(unitFile)
	for name, broken := range map[string]func(){
		"a link that was removed":         func() { s.Must("rm", linkDir+"/tsh") },
		"the agent's link, removed":       func() { s.Must("rm", linkDir+"/teleport") },
		"a link that was led elsewhere":   func() { s.Must("ln", "-sfn", "/usr/bin/true", linkDir+"/tctl") },
		"a link replaced by a file":       func() { s.Must("sh", "-c", "rm "+linkDir+"/tbot && echo mine >"+linkDir+"/tbot") },
		"the unit, edited":                func() { s.Write(unitFile, unit+"# edited\n") },
		"the unit, removed":               func() { s.Must("rm", unitFile) },
		"a binary that was emptied":       func() { s.Must("truncate", "-s", "0", programs+"/1.0.0/bin/tctl") },
		"a binary that was removed":       func() { s.Must("rm", programs+"/1.0.0/bin/tbot") },
		"the agent's own binary, removed": func() { s.Must("rm", programs+"/1.0.0/bin/teleport") },
		"the version's record, removed":   func() { s.Must("rm", "-r", store+"/1.0.0") },
		"the version's programs, removed": func() { s.Must("rm", "-r", programs+"/1.0.0") },
		"the whole version, removed":      func() { s.Must("rm", "-r", store+"/1.0.0", programs+"/1.0.0") },
	} {
		broken()
		s.Fails(1, "checks failed", updater, "verify")
		if code := s.Tick(); code != 0 {
			t.Errorf("%s: the tick that repairs it ends with %d", name, code)
		}
		s.Linked("1.0.0")
		if out := s.Try(updater, "verify"); out.Code != 0 {
			t.Errorf("%s: verify is not content after the repair:\n%s%s", name, out.Stdout, out.Stderr)
		}
		if now := s.PID(); now != pid {
			t.Errorf("%s: the agent was restarted for a repair", name)
			pid = now
		}
		// The process has its program in a folder that was moved away; JSON names that file.
		said := s.Must(updater, "status", "--format", "text")
		if runs := s.Status().Agent.Version; scenes.Text(runs) != "1.0.0" || strings.Contains(said, ".staging-") || strings.Contains(said, "version unknown") {
			t.Errorf("%s: status does not know what runs after the repair:\n%s", name, said)
		}
		if got := s.Show("teleport", "NeedDaemonReload"); got != "no" {
			t.Errorf("%s: systemd has not read the unit again", name)
		}
	}
	s.Must("systemctl", "restart", "teleport")
	s.Serves("1.0.0")
	for _, want := range []string{`"result": "repaired"`, unitFile + " is missing", "the version was damaged, and is fetched again"} {
		if out := s.Must(updater, "history"); !strings.Contains(out, want) {
			t.Errorf("the history of repairs lacks %q:\n%s", want, out)
		}
	}

	// Where there are no more ticks, a person has to say it.
	s.Must("systemctl", "disable", "--now", "teleport-update.timer")
	if out := s.Must(updater, "verify"); !strings.Contains(out, "the updater's timer is disabled") {
		t.Errorf("a timer that is disabled is a setting; verify prints:\n%s", out)
	}
	s.Must("rm", "/usr/local/lib/systemd/system/teleport-update-recover.service")
	s.Fails(1, "2 of ", updater, "verify")
	timer := func(after, state string) {
		s.Must(updater, after)
		s.Must(updater, "verify")
		if got := s.Show("teleport-update.timer", "ActiveState"); got != state {
			t.Errorf("the timer is %s after %s; want %s", got, after, state)
		}
	}
	timer("update", "inactive")
	if out := s.Must(updater, "history", "--format", "text"); !strings.Contains(out, "repair") || !strings.Contains(out, "teleport-update-recover.service") {
		t.Errorf("the repair of a unit is not in the history:\n%s", out)
	}
	timer("enable", "active")
}

func TestVerifyNamesADamagedFile(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Wants("1.1.0")
	s.Must(updater, "update")
	if out := s.Must(updater, "verify"); !strings.Contains(out, "version 1.0.0: whole, previous") || !strings.Contains(out, "version 1.1.0: whole, active") {
		t.Errorf("verify prints:\n%s", out)
	}

	s.Must("sh", "-c", "printf x | dd of="+programs+"/1.0.0/bin/tsh bs=1 seek=3 conv=notrunc")
	before := s.Tree(scenes.TheHost...)
	r := s.Try(updater, "verify")
	if r.Code != 1 || !strings.Contains(r.Stdout, "BAD  version 1.0.0") || !strings.Contains(r.Stdout, "bin/tsh") {
		t.Errorf("verify ends with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	s.Unchanged(before, s.Tree(scenes.TheHost...), scenes.AgentState)
	s.Fails(1, "bin/tsh", updater, "rollback")
	s.Serves("1.1.0")
}

// A strict umask of root's, as hardening guides want it, must not make programs
// that nobody but root can run.
func TestAStrictUmaskDoesNotLockPeopleOut(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"with systemd": false, "in a plain container": true} {
		t.Run(name, func(t *testing.T) {
			s := sceneOn(t, host.Options{Plain: plain})
			s.Sound("1.0.0", "1.1.0")
			strictly := func(command string) { s.Must("sh", "-c", "umask 0077; "+updater+" "+command) }
			for _, v := range []string{"1.0.0", "1.1.0"} {
				s.Wants(v)
				if v == "1.0.0" {
					strictly("enable --proxy " + cluster.ProxyAddress + " --template '" + cluster.TemplateURL + "'")
				} else {
					strictly("update")
				}
				for _, program := range []string{"teleport", "tsh", "tctl", "tbot"} {
					out := s.Must("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", linkDir+"/"+program, "version")
					if !strings.Contains(out, "v"+v) {
						t.Errorf("an ordinary user's %s prints %q", program, out)
					}
				}
				s.Must("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", unitFile, "/usr/local/lib/systemd/system/teleport-update.timer")
			}
			if r := s.Try("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "cat", store+"/updates.yaml"); r.Code == 0 {
				t.Errorf("an ordinary user reads updates.yaml")
			}
		})
	}
}
