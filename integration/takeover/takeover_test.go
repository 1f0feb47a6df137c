//go:build hosts

package takeover

import (
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/cluster"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

func TestAnAgentThatIsHereAlreadyIsTakenOver(t *testing.T) {
	t.Parallel()
	for how, a := range scenes.PreExistingAgents {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0")
			s.RunPreExisting("0.9.0", a)
			rows := s.RowsOf("0.9.0")

			s.Wants("1.0.0")
			s.Enable("--health-window", "1s")
			s.Serves("1.0.0")
			if now := s.RowsOf("0.9.0"); now < rows {
				t.Errorf("of %d rows of the agent's database %d are left", rows, now)
			}
			if got := s.Show("teleport", "FragmentPath"); got != unitFile {
				t.Errorf("systemd uses the unit %s", got)
			}
			// The agent's folder is root's alone and stays so, and everybody runs what they
			// could run before.
			if mode := strings.TrimSpace(s.Must("stat", "-c", "%a", "/var/lib/teleport")); mode != "700" {
				t.Errorf("the data folder has the mode %s", mode)
			}
			for _, name := range []string{"teleport", "tsh", "tctl", "tbot"} {
				s.Must("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", linkDir+"/"+name, "version")
			}
			s.Must(scenes.Updater, "verify")
			s.Must("chmod", "o-x", programs)
			if out := s.Try(scenes.Updater, "verify"); out.Code == 0 || !strings.Contains(out.Stdout, "BAD  other users: other users cannot run tbot, tctl, teleport, tsh") {
				t.Errorf("verify does not see that others cannot run the programs: %d, %s", out.Code, out.Stdout)
			}
			s.Must("chmod", "o+x", programs)
			if r := s.Status(); r.Unproven || scenes.Text(r.LastResult) != "succeeded" {
				t.Errorf("status: unproven %v, last result %s", r.Unproven, scenes.Text(r.LastResult))
			}
			if err := s.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Serves("1.0.0")
		})
	}
}

func TestAFailedFirstEnablePutsEverythingBack(t *testing.T) {
	t.Parallel()
	for how, a := range scenes.PreExistingAgents {
		t.Run(how, func(t *testing.T) {
			s := newScene(t)
			s.Release(release.Spec{Version: "1.0.0", Variant: stamp.DiesOnReload, Schema: 2})
			s.RunPreExisting("0.9.0", a)
			rows := s.RowsOf("0.9.0")
			s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
			before := s.Tree(scenes.TheHost...)

			s.Wants("1.0.0")
			s.Fails(1, "version 1.0.0 was not healthy and was rolled back", updater, "enable",
				"--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL, "--health-window", "1s")
			s.Unchanged(before, s.Tree(scenes.TheHost...), scenes.AgentState, store)
			s.onlyOutcomeIsLeft()
			host.Wait(t, patience, func() error { return s.Executes(a.BinDir + "/teleport") })
			if now := s.RowsOf("0.9.0"); now < rows {
				t.Errorf("of %d rows of the agent's database %d are left", rows, now)
			}
			r := s.Status()
			if r.State != decision.NeedsAttention || scenes.Text(r.LastResult) != "rolled_back" || scenes.Text(r.FailedVersion) != "1.0.0" || r.VersionInstalled != nil {
				t.Errorf("status: %s, last result %s, failed %s, installed %s", r.State, scenes.Text(r.LastResult), scenes.Text(r.FailedVersion), scenes.Text(r.VersionInstalled))
			}

			// Nothing of it stands in the way of the next one.
			s.Sound("1.0.1")
			s.Wants("1.0.1")
			s.Enable("--health-window", "1s")
			s.Serves("1.0.1")
		})
	}
}

func TestWhatStandsInTheWayIsNamedAndLeftAlone(t *testing.T) {
	t.Parallel()
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
			s.Sound("1.0.0")
			s.Wants("1.0.0")
			s.Must("mkdir", "-p", "/var/lib/systemd/timers") // systemd makes it for any timer that is persistent
			tc.obstacle(s)
			s.Must("systemctl", "daemon-reload")
			before := s.Tree(scenes.TheHost...)
			s.Fails(1, tc.says, updater, "enable", "--proxy", cluster.ProxyAddress, "--template", cluster.TemplateURL)
			s.Unchanged(before, s.Tree(scenes.TheHost...), "/var/lib/teleport")
			s.onlyOutcomeIsLeft()
			if r := s.Status(); r.FailedVersion != nil {
				t.Errorf("version %s is blamed for it", *r.FailedVersion)
			}
		})
	}
}

// An update is stopped by it before the agent's database is backed up, every ten
// minutes if need be.
func TestADropInThatStartsSomethingElseStopsUpdatesEarly(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	dropIn := "/etc/systemd/system/teleport.service.d/own.conf"
	s.Wants("1.1.0")
	for _, program := range []string{"/usr/local/bin/tctl", "/usr/bin/sleep"} { // one lies beside the agent's link
		s.Write(dropIn, "[Service]\nExecStart=\nExecStart="+program+" 9\n")
		s.Must("systemctl", "daemon-reload")
		s.Fails(1, "look at "+dropIn, updater, "update")
		s.Switched(0, "1.1.0")
	}
	if out := s.Try(updater, "verify"); out.Code != 1 || !strings.Contains(out.Stdout, "look at "+dropIn) {
		t.Errorf("verify ends with %d:\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
	s.Serves("1.0.0")
	s.Switched(0, "1.1.0")
	if r := s.Status(); r.FailedVersion != nil || !strings.Contains(scenes.Text(r.LastError), dropIn) {
		t.Errorf("status: failed %s, last error %s", scenes.Text(r.FailedVersion), scenes.Text(r.LastError))
	}

	s.Must("rm", dropIn)
	s.Must("systemctl", "daemon-reload")
	if code := s.Tick(); code != 0 {
		t.Errorf("without it the next tick ends with %d", code)
	}
	s.Serves("1.1.0")
}

// A mirror, or a mistake of a release, says what systemd is to start. It is not an
// administrator's doing, so the version is not tried again at each tick.
func TestAVersionWhoseUnitStartsSomethingElseIsUndoneAndRemembered(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Files: []release.File{
		{Name: "examples/systemd/teleport.service", Data: []byte("[Service]\nExecStart=/usr/bin/sleep 9\n")},
	}})
	s.RunsOn("1.0.0", "--health-window", "1s")
	pid := s.PID()
	s.Wants("1.1.0")
	s.Fails(1, "the unit that version 1.1.0 brings starts /usr/bin/sleep", updater, "update")
	s.Serves("1.0.0")
	if s.PID() != pid {
		t.Error("the agent was restarted for it")
	}
	if r := s.Status(); scenes.Text(r.FailedVersion) != "1.1.0" || r.State != decision.BackingOff {
		t.Errorf("status: %s, failed %s", r.State, scenes.Text(r.FailedVersion))
	}
}

// onlyOutcomeIsLeft asserts that a failed first enable left nothing of its own
// but what may stay: the outcome, caches, locks.
func (s *scene) onlyOutcomeIsLeft() {
	s.T.Helper()
	names, err := s.Names(store)
	if err != nil {
		s.T.Fatal(err)
	}
	for _, name := range names {
		if !slices.Contains([]string{"updates.yaml", "find.json", "history.json", "update.lock", "fetch.lock", "partial"}, name) {
			s.T.Errorf("%s is left in the version store", name)
		}
	}
	if s.Exists(store + "/updates.yaml") {
		// The outcome names the command that failed.
		spec, _, _ := strings.Cut(s.Read(store+"/updates.yaml"), "\nstatus:")
		if strings.Contains(spec, cluster.ProxyAddress) || s.Status().UpdatesEnabled {
			s.T.Errorf("the configuration was written:\n%s", spec)
		}
	}
	if units := s.Must("systemctl", "list-units", "--all", "--plain", "--no-legend", "teleport-update*"); units != "" {
		s.T.Errorf("units are left:\n%s", units)
	}
}
