//go:build hosts

package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/integration/host"
)

// What an administrator's drop-in does to the updater's own units: whatever keeps the timer's runs from
// beginning, or the recovery from its work, is named by status, a host is not idle then, and no version
// is changed without a recovery that can be counted on. Once the drop-in is gone, all is well.
func TestADropInOnTheUpdatersOwnUnitsIsSeen(t *testing.T) {
	const timer, run, recovery = "teleport-update.timer", "teleport-update.service", "teleport-update-recover.service"
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	s.StatusIs("idle")
	s.Must("systemctl", "mask", "masked.service")
	dry := map[decision.Type]bool{}
	for _, c := range []struct {
		unit, drop string
		by         decision.Type // empty: status does not foretell it
		says       string
	}{
		{run, "[Service]\nExecStart=\nExecStart=/bin/true\n", decision.UpdaterBroken, "starts /bin/true"},
		{run, "[Service]\nExecStart=\n", decision.RunNotMade, "bad-setting"},
		{run, "[Service]\nUser=daemon\n", decision.RunNotMade, "203/EXEC"},
		{run, "[Service]\nUser=nobody-such\n", decision.RunNotMade, "217/USER"},
		{run, "[Service]\nGroup=nobody-such\n", decision.RunNotMade, "216/GROUP"},
		{run, "[Service]\nWorkingDirectory=/nonexistent\n", decision.RunNotMade, "200/CHDIR"},
		{run, "[Service]\nEnvironmentFile=/nonexistent\n", decision.RunNotMade, "Result=resources"},
		{run, "[Service]\nLimitAS=1M\n", decision.RunNotMade, "SIGSEGV"},
		{run, "[Service]\nNoExecPaths=/\n", decision.RunNotMade, "203/EXEC"},
		{run, "[Service]\nInaccessiblePaths=/var/lib/teleport\n", decision.RunNotMade, "203/EXEC"},
		{run, "[Service]\nExecStartPre=/bin/false\n", decision.RunNotMade, "Result=exit-code"},
		{run, "[Service]\nExecStartPost=/bin/false\n", decision.RunNotMade, "Result=exit-code"},
		{run, "[Service]\nExecCondition=/bin/false\n", decision.RunNotMade, "Result=exec-condition"},
		{run, "[Service]\nTimeoutStartSec=1ms\n", decision.RunNotMade, "Result=timeout"},
		{run, "[Unit]\nConditionPathExists=/nonexistent\n", decision.RunNotMade, "ConditionResult=no"},
		{run, "[Unit]\nAssertPathExists=/nonexistent\n", decision.RunNotMade, "ConditionResult=no"},
		{run, "[Unit]\nRequires=masked.service\n", decision.UpdaterBroken, "masked.service, which " + run + " needs (Requires=), is masked"},
		{timer, "[Timer]\nUnit=systemd-tmpfiles-clean.service\n", decision.TimerStopped, "starts systemd-tmpfiles-clean.service instead"},
		{timer, "[Timer]\nOnCalendar=\nOnActiveSec=1us\nAccuracySec=1us\nRandomizedDelaySec=0\n", decision.NoRuns, "active (elapsed)"},
		{timer, "[Unit]\nConditionPathExists=/nonexistent\n", decision.TimerStopped, "stopped"},
		{recovery, "[Service]\nExecStart=\nExecStart=/bin/true\n", decision.RecoveryBroken, "starts /bin/true"},
		{recovery, "[Service]\nExecStart=\nExecStart=/bin/false teleport-update recover --boot\n", decision.RecoveryBroken, "/bin/false"},
		{recovery, "[Service]\nExecStart=\n", decision.RecoveryBroken, "bad-setting"},
		{recovery, "[Service]\nUser=daemon\n", decision.RecoveryBroken, "as user daemon"},
		{recovery, "[Service]\nDynamicUser=yes\n", decision.RecoveryBroken, "as user"},
		{recovery, "[Unit]\nConditionPathExists=/nonexistent\n", decision.RecoveryBroken, "/nonexistent does not hold"},
		{recovery, "[Unit]\nAssertPathExists=/nonexistent\n", decision.RecoveryBroken, "/nonexistent does not hold"},
		{recovery, "[Service]\nGroup=nobody-such\n", "", "216, GROUP"},
		{recovery, "[Service]\nWorkingDirectory=/nonexistent\n", "", "200, CHDIR"},
		{recovery, "[Service]\nEnvironmentFile=/nonexistent\n", "", "Failed to load environment files"},
		{recovery, "[Service]\nLimitAS=1M\n", "", "killed by SIGSEGV"},
		{recovery, "[Service]\nTimeoutStartSec=1ms\n", decision.RecoveryBroken, "TimeoutStartSec=1ms"},
		{recovery, "[Service]\nNoExecPaths=/var/lib\n", decision.RecoveryBroken, "NoExecPaths="},
		{recovery, "[Service]\nProtectSystem=strict\n", decision.RecoveryBroken, "ProtectSystem=strict"},
		{recovery, "[Service]\nReadOnlyPaths=/usr/local\n", decision.RecoveryBroken, "ReadOnlyPaths="},
		{recovery, "[Service]\nInaccessiblePaths=/var/lib/teleport\n", decision.RecoveryBroken, "InaccessiblePaths="},
		{recovery, "[Service]\nTemporaryFileSystem=/var/lib\n", decision.RecoveryBroken, "TemporaryFileSystem="},
		{recovery, "[Service]\nRootDirectory=/srv\n", decision.RecoveryBroken, "RootDirectory="},
		{recovery, "[Service]\nSupplementaryGroups=nobody-such\n", "", "216, GROUP"},
		{recovery, "[Service]\nExecCondition=/bin/false\n", decision.RecoveryBroken, "ExecCondition=/bin/false"},
		{recovery, "[Service]\nExecStartPre=/bin/false\n", decision.RecoveryBroken, "ExecStartPre=/bin/false"},
		{recovery, "[Unit]\nRequires=nonexistent.service\n", decision.RecoveryBroken, "nonexistent.service, which " + recovery + " needs"},
		{recovery, "[Unit]\nRequires=masked.service\n", decision.RecoveryBroken, "masked.service, which " + recovery + " needs (Requires=), is masked"},
		{recovery, "[Unit]\nRequisite=systemd-tmpfiles-clean.service\n", decision.RecoveryBroken, "(Requisite=), is inactive"},
		{recovery, "[Unit]\nConditionPathIsMountPoint=/srv\n", decision.RecoveryBroken, "ConditionPathIsMountPoint=/srv does not hold"},
	} {
		file := "/etc/systemd/system/" + c.unit + ".d/95-other.conf"
		if strings.Contains(c.drop, "Timeout") { // the updater's own limits rank above what sorts before them
			file = "/etc/systemd/system/" + c.unit + ".d/zzzzz-other.conf"
		}
		s.Write(file, c.drop)
		s.Must("systemctl", "daemon-reload")
		switch c.unit {
		case run:
			s.Wants("1.0.0")
			s.Try("systemctl", "start", run)
		case timer:
			s.Must("systemctl", "restart", timer)
			if c.by == decision.NoRuns {
				s.elapsed(timer)
			}
		case recovery:
			s.Wants("1.1.0")
			commands := [][]string{{"update", "--now"}}
			if !dry[c.by] { // it asks as an update does
				dry[c.by] = true
				commands = append(commands, []string{"update", "--now", "--dry-run"})
			}
			for _, args := range commands {
				r := s.Try(append([]string{updater}, args...)...)
				if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, "which would repair an update that a power cut ends, cannot") || !strings.Contains(r.Stdout+r.Stderr, c.says) {
					t.Errorf("%s with %q: %v ends with %d:\n%s%s", c.unit, c.drop, args, r.Code, r.Stdout, r.Stderr)
				}
			}
			s.Linked("1.0.0")
		}
		r := s.Status()
		found := slices.ContainsFunc(r.Conditions, func(found decision.Condition) bool {
			return found.Type == c.by && strings.Contains(found.Message, c.says)
		})
		if foretold := c.by != ""; foretold && (!found || !r.State.Alarming()) {
			t.Errorf("%s with %q: status is %s, %+v; want %s with %q", c.unit, c.drop, r.State, r.Conditions, c.by, c.says)
		}
		if v := s.Try(updater, "verify"); c.by != "" && (v.Code != 1 || !strings.Contains(v.Stdout, "BAD  ")) {
			t.Errorf("%s with %q: verify ends with %d:\n%s", c.unit, c.drop, v.Code, v.Stdout)
		}
		s.Must("rm", file)
		s.Must("systemctl", "daemon-reload")
		if c.unit == recovery {
			continue // what was refused has changed nothing
		}
		s.Must("systemctl", "restart", timer)
		s.Wants("1.0.0")
		if code := s.Tick(); code != 0 {
			t.Errorf("after %s with %q, a run of the timer ends with %d", c.unit, c.drop, code)
		}
		s.StatusIs("idle")
	}
	s.seesWhatKeepsRuns(timer, run)
	s.Wants("1.1.0")
	s.Must(updater, "update", "--now")
	s.Serves("1.1.0")
}

// A drop-in whose command names the updater and ends well without it, as `flock -n -E 0` does while somebody has the lock: systemd
// calls each run a success.
func TestARunThatDoesNothingIsSeen(t *testing.T) {
	const run, file, settles = "teleport-update.service", "/etc/systemd/system/teleport-update.service.d/95-other.conf", 11 * time.Second
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	s.StatusIs("idle")
	s.Wants("1.1.0")
	s.Write(file, "[Service]\nExecStart=\nExecStart=/bin/true teleport-update update\n")
	s.Must("systemctl", "daemon-reload")
	time.Sleep(settles) // after the trace of the last run
	s.Must("systemctl", "start", run)
	time.Sleep(settles)
	r := s.Status()
	if !r.State.Alarming() || !strings.Contains(r.Explanation, "Result=success") {
		t.Errorf("status is %s: %s", r.State, r.Explanation)
	}
	if v := s.Try(updater, "verify"); v.Code != 1 || !strings.Contains(v.Stdout, "Result=success") {
		t.Errorf("verify ends with %d:\n%s", v.Code, v.Stdout)
	}
	s.Must("rm", file)
	s.Must("systemctl", "daemon-reload")
	// The flags of update are no variables of the timer's: a dry run changes nothing, and ends well.
	s.Write("/etc/default/teleport-update", "TELEPORT_UPDATE_DRY_RUN=true\n")
	if code := s.Tick(); code != 0 {
		t.Errorf("a run of the timer ends with %d", code)
	}
	s.Serves("1.1.0")
	s.Proven()
	s.StatusIs("idle")
}

// seesWhatKeepsRuns has the timer start a run that a failing unit keeps from beginning: of that systemd notes nothing in the
// run's own service.
func (s *scene) seesWhatKeepsRuns(timer, run string) {
	s.T.Helper()
	const fails = "/etc/systemd/system/vpn.service"
	once, needs := "/etc/systemd/system/"+timer+".d/95-other.conf", "/etc/systemd/system/"+run+".d/95-other.conf"
	s.Write(fails, "[Service]\nType=oneshot\nExecStart=/bin/false\n")
	s.Write(needs, "[Unit]\nRequires=vpn.service\nAfter=vpn.service\n")
	s.Write(once, "[Timer]\nOnCalendar=\nOnActiveSec=1us\nAccuracySec=1us\nRandomizedDelaySec=0\n")
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "restart", timer)
	host.Wait(s.T, patience, func() error {
		r := s.Status()
		for _, c := range r.Conditions {
			if c.Type == decision.NoRuns && strings.Contains(c.Message, "systemctl list-jobs") {
				return nil
			}
		}
		return fmt.Errorf("status is %s, %+v", r.State, r.Conditions)
	})
	s.Must("rm", fails, needs, once)
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "restart", timer)
	if code := s.Tick(); code != 0 {
		s.T.Errorf("without the need, a run of the timer ends with %d", code)
	}
	s.StatusIs("idle")
}

// elapsed returns once a timer has started what it starts, and that has ended.
func (s *scene) elapsed(timer string) {
	s.T.Helper()
	host.Wait(s.T, patience, func() error {
		if got := s.Show(timer, "SubState"); got != "elapsed" {
			return fmt.Errorf("the timer is %s", got)
		}
		return nil
	})
}
