//go:build hosts

package recovery

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// An interruption says nothing about the version, until it was the third one:
// something about it interrupts.
func TestTheThirdInterruptionOfAVersionIsAFailure(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	for n := 1; n <= 3; n++ {
		s.Wants("1.1.0")
		update := s.MidWatch("1.1.0")
		// A person's Ctrl-C reaches the transaction as SIGINT, a shutdown as SIGTERM.
		signal := []string{"INT", "TERM"}[n%2]
		s.Must("systemctl", "kill", "--signal="+signal, scenes.SwitchUnits)
		s.Ends(update, 1)
		s.Serves("1.0.0")
		s.Tidy()
		r := s.Status()
		if scenes.Text(r.LastResult) != "interrupted" || !strings.Contains(scenes.Text(r.LastError), "was told to stop in the middle of it") {
			t.Errorf("interruption %d: last result %s, %s", n, scenes.Text(r.LastResult), scenes.Text(r.LastError))
		}
		if failed := r.FailedVersion != nil; failed != (n == 3) {
			t.Errorf("after %d interruption(s): failed is %s", n, scenes.Text(r.FailedVersion))
		}
	}
	if r := s.Status(); r.State != decision.BackingOff || r.FailedAttempts == nil || *r.FailedAttempts != 1 {
		t.Errorf("status after three interruptions: %s", r.State)
	}
}

// At boot the recovery puts files in their place before the agent is started, and
// neither starts it nor waits for it: that would wait for itself.
func TestTheRecoveryAtBootIsOverBeforeTheAgentStarts(t *testing.T) {
	s := newScene(t)
	s.migratingTo("1.1.0")
	s.cutInMidWatch("1.1.0")
	s.recoveredFirst()
	host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
	s.LinkedFiles("1.0.0")
	if got := s.Phase(); got != "restored" {
		t.Errorf("after the boot the journal says %q", got)
	}
	if log := s.Log("teleport-update-recover.service"); strings.Contains(log, "watching") || strings.Contains(log, "starting the agent") {
		t.Errorf("the recovery at boot does more than files:\n%s", log)
	}
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the first tick ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Whole("the database", s.Live(), 1)
}

// migratingTo runs 1.0.0, and has a release that migrates its database.
func (s *scene) migratingTo(v string) {
	s.T.Helper()
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: v, Schema: 2})
	s.RunsOn("1.0.0")
	s.Wants(v)
}

// cutInMidWatch has every process of the host die while a version is watched, and
// boots it again.
func (s *scene) cutInMidWatch(v string) {
	s.T.Helper()
	s.MidWatch(v)
	if err := s.Kill(); err != nil {
		s.T.Fatal(err)
	}
	if err := s.Boot(s.T.Context()); err != nil {
		s.T.Fatal(err)
	}
}

// recoveredFirst asserts that the recovery ran at this boot, and ended before
// the agent was started.
func (s *scene) recoveredFirst() {
	s.T.Helper()
	at := func(unit, property string) int64 {
		n, err := strconv.ParseInt(s.Show(unit, property), 10, 64)
		if err != nil || n == 0 {
			s.T.Errorf("%s of %s is %d, %v", property, unit, n, err)
		}
		return n
	}
	over, begun := at("teleport-update-recover.service", "ExecMainExitTimestampMonotonic"), at("teleport.service", "ExecMainStartTimestampMonotonic")
	if over >= begun {
		s.T.Errorf("the recovery was over %v after the agent was started", time.Duration(over-begun)*time.Microsecond)
	}
}

// The agent's state, or its programs, are on another file system than the links, one that
// is mounted late: the recovery waits for it, and the agent for the recovery.
func TestWhatIsMountedLateIsRecoveredBeforeTheAgentStarts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ dir, unit string }{
		"the state":    {"/var/lib/teleport", "var-lib-teleport.mount"},
		"the programs": {programs, `opt-teleport\x2dupdate.mount`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Write("/etc/systemd/system/late.service", "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sleep 2\n")
			s.Write("/etc/systemd/system/"+tc.unit, "[Unit]\nDefaultDependencies=no\nRequires=late.service\nAfter=late.service\n"+
				"[Mount]\nWhat=/srv/teleport\nWhere="+tc.dir+"\nType=none\nOptions=bind\n[Install]\nWantedBy=multi-user.target\n")
			s.Must("mkdir", "-p", "/srv/teleport", tc.dir)
			s.Must("systemctl", "daemon-reload")
			s.Must("systemctl", "enable", "--now", tc.unit)
			s.migratingTo("1.1.0")
			s.cutInMidWatch("1.1.0")
			if got := s.Show(tc.unit, "ActiveState"); got != "active" {
				t.Fatalf("the mount is %s", got)
			}
			s.recoveredFirst()
			host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
			s.Wants("1.0.0")
			if code := s.Tick(); code != 0 {
				t.Errorf("the first tick ends with %d", code)
			}
			s.Serves("1.0.0")
			s.Whole("the database", s.Live(), 1)
			s.Updates("1.1.0")

			// Without an open transaction, too, the agent is there once the mount is.
			if err := s.Reboot(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Serves("1.1.0")
		})
	}
}

// A journal that nobody can act on: nothing destructive is done, it is said, and
// the agent starts all the same at a boot.
func TestAJournalThatCannotBeActedOn(t *testing.T) {
	t.Parallel()
	const newer = `{"schema": 99, "phase": "teleported"}`
	for _, tc := range []struct {
		name, journal string
		mixed         bool // links and unit are not of one version
		aside         bool // the journal does not stand in the way any more
		says          string
	}{
		{name: "cut short, and the host is on one version", journal: `{"schema": 1, "phase": "swi`, aside: true, says: "updates go on"},
		{name: "empty, and the host is on one version", journal: ``, aside: true, says: "updates go on"},
		{name: "cut short, and the links are mixed", journal: `{"schema": 1, "phase": "swi`, mixed: true, says: linkDir + "/tsh leads to /elsewhere"},
		{name: "of a newer updater", journal: newer, says: "newer updater (schema 99"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0", "1.1.0")
			s.RunsOn("1.0.0", "--health-window", "1s")
			if err := s.WriteFile(store+"/journal.json", []byte(tc.journal), 0o600); err != nil {
				t.Fatal(err)
			}
			if tc.mixed {
				s.Must("ln", "-sfn", "/elsewhere", linkDir+"/tsh")
			}
			before, pid := s.Tree(scenes.TheHost...), s.PID()
			s.Wants("1.1.0")
			s.Fails(4, tc.says, updater, "update")
			if s.PID() != pid {
				t.Error("the agent was restarted")
			}
			if r := s.Status(); r.State == decision.Updating {
				t.Errorf("status: %s", r.State)
			}
			if !tc.aside {
				s.Unchanged(before, s.Tree(scenes.TheHost...), scenes.AgentState, store+"/update.lock")
				s.Fails(4, tc.says, updater, "update")
				if s.Status().State != decision.NeedsAttention {
					t.Errorf("status: %s", s.Status().State)
				}
				// The recovery fails at boot. Some agent beats none.
				if err := s.Reboot(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := s.Show("teleport-update-recover.service", "Result"); got != "exit-code" {
					t.Errorf("the recovery at boot: %s", got)
				}
				host.Wait(t, patience, func() error { return s.Executes(programs + "/1.0.0/bin/teleport") })
				return
			}
			if got := s.Status(); scenes.Text(got.LastResult) != "interrupted" || !strings.Contains(scenes.Text(got.LastError), "kept aside as "+store+"/journal.json.unreadable-") {
				t.Errorf("status: last result %s: %s", scenes.Text(got.LastResult), scenes.Text(got.LastError))
			}
			if kept := s.Must("sh", "-c", "cat "+store+"/journal.json.unreadable-*"); kept != tc.journal {
				t.Errorf("what is kept aside is %q", kept)
			}
			s.Must(updater, "update")
			s.Serves("1.1.0")
		})
	}
}

// Whoever is killed in the recovery itself is followed by another one.
func TestARecoveryThatIsKilledAtBoot(t *testing.T) {
	s := newScene(t)
	s.migratingTo("1.1.0")
	s.cutInMidWatch("1.1.0")
	// Killed by systemd after a moment, at three boots in a row. Before the cut, the change would be refused for it.
	s.Write("/etc/systemd/system/teleport-update-recover.service.d/zzzzz-test.conf", "[Service]\nTimeoutStartSec=1ms\nTimeoutStopSec=1ms\n")
	for range 2 {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		host.Wait(t, patience, func() error {
			if got := s.Show("teleport", "ActiveState"); got != "active" {
				return fmt.Errorf("the agent's unit is %s", got)
			}
			return nil
		})
	}
	s.Must("rm", "-r", "/etc/systemd/system/teleport-update-recover.service.d")
	s.Must("systemctl", "daemon-reload")
	s.Wants("1.0.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that closes the transaction ends with %d", code)
	}
	s.Serves("1.0.0")
	s.Whole("the database", s.Live(), 1)
	s.Must(updater, "verify")
}
