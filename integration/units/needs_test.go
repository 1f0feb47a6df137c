//go:build hosts

package units

import (
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

const (
	needsDropIn = "/etc/systemd/system/teleport.service.d/50-test.conf"
	runsForEver = "[Service]\nExecStart=/bin/sleep infinity\n"
)

// needing is a host whose agent runs 1.1.0, and whose rollback to 1.0.0 stops it.
func needing(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Schema: 1})
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Proven()
	s.Updates("1.1.0")
	return s
}

// drops writes a drop-in of the agent's; systemd has read it or not.
func (s *scene) drops(text string, read bool) {
	s.T.Helper()
	s.Write(needsDropIn, text)
	if read {
		s.Must("systemctl", "daemon-reload")
	}
}

// names fails the test if neither status nor verify names something as a fault.
func (s *scene) names(name, says string) {
	s.T.Helper()
	r := s.Status()
	text := ""
	for _, c := range r.Conditions {
		text += string(c.Severity) + ": " + c.Message + "\n"
	}
	if !r.State.Alarming() || !strings.Contains(text, says) {
		s.T.Errorf("%s: status is %s:\n%swant %q", name, r.State, text, says)
	}
	if v := s.Try(updater, "verify"); v.Code != 1 || !strings.Contains(v.Stdout, says) {
		s.T.Errorf("%s: verify ends with %d:\n%s", name, v.Code, v.Stdout)
	}
}

// unforetold are words about causes that status and verify do not foretell: those of systemd's about a canary, which they do not start.
var unforetold = []string{"216, GROUP", "200, CHDIR", "/srv/gone", "killed by SIGSEGV"}

// Whatever the agent's unit has come to need since the agent was started, and what is not there any more, shows before the
// agent is stopped, by name.
func TestWhatAStartOfTheAgentNeedsIsAskedForFirst(t *testing.T) {
	s := needing(t)
	s.Write("/etc/systemd/system/vpn.service", runsForEver)
	s.Write("/etc/systemd/system/bad.service", "[Service]\nExecStart=\n")
	s.Write("/etc/systemd/system/outer.service", "[Unit]\nRequires=gone.service\n"+runsForEver)
	s.Must("systemctl", "daemon-reload")
	for _, c := range []struct{ name, dropIn, begin, end, says string }{
		{"a required unit is masked", "[Unit]\nRequires=other.service\n", "systemctl mask other.service", "systemctl unmask other.service",
			"other.service, which teleport.service needs (Requires=), is masked"},
		{"a required unit is masked and runs", "[Unit]\nRequires=vpn.service\nAfter=vpn.service\n",
			"systemctl start vpn; mkdir -p /etc/systemd/system.control; ln -s /dev/null /etc/systemd/system.control/vpn.service",
			"rm /etc/systemd/system.control/vpn.service; systemctl daemon-reload; systemctl stop vpn",
			"vpn.service, which teleport.service needs (Requires=), is masked"},
		{"a required unit is gone", "[Unit]\nRequires=gone.service\n", "true", "true", "gone.service, which teleport.service needs (Requires=), is not-found"},
		{"a required unit is wrong", "[Unit]\nRequires=bad.service\n", "true", "true", "bad.service, which teleport.service needs (Requires=), is bad-setting"},
		{"a required unit requires one that is gone", "[Unit]\nRequires=outer.service\n", "true", "true",
			"gone.service, which outer.service needs (Requires=), is not-found"},
		{"a unit that has to run does not, without an order", "[Unit]\nRequisite=vpn.service\n", "true", "true",
			"vpn.service, which teleport.service needs (Requisite=), is inactive"},
		{"a unit that has to run does not", "[Unit]\nRequisite=vpn.service\nAfter=vpn.service\n", "true", "true",
			"vpn.service, which teleport.service needs (Requisite=), is inactive"},
		{"the unit is wrong", "[Service]\nExecStart=\n", "true", "true", "bad-setting"},
		{"the group is gone", "[Service]\nGroup=nobody-such\n", "true", "true", "216, GROUP"},
		{"another group is gone", "[Service]\nSupplementaryGroups=nobody-such\n", "true", "true", "216, GROUP"},
		{"the folder to work in is gone", "[Service]\nWorkingDirectory=/srv/gone\n", "true", "true", "200, CHDIR"},
		{"a file of variables is gone", "[Service]\nEnvironmentFile=/srv/gone\n", "true", "true", "/srv/gone"},
		{"there is no memory", "[Service]\nLimitAS=4M\n", "true", "true", "killed by SIGSEGV"},
		{"a folder is no mount", "[Unit]\nConditionPathIsMountPoint=/srv\n", "true", "true", "ConditionPathIsMountPoint=/srv"},
		{"a folder is a mount", "[Unit]\nAssertPathIsMountPoint=!/run\n", "true", "true", "AssertPathIsMountPoint=!/run"},
	} {
		s.Must("sh", "-c", c.begin)
		s.drops(c.dropIn, true)
		before := s.Seen()
		for _, args := range [][]string{{updater, "rollback"}, {updater, "rollback", "--dry-run"}} {
			r := s.Try(args...)
			if r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, c.says) {
				t.Errorf("%s: %v ends with %d:\n%s%s", c.name, args, r.Code, r.Stdout, r.Stderr)
			}
		}
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s", c.name, got)
		}
		s.Closed()
		if !slices.Contains(unforetold, c.says) {
			s.names(c.name, c.says)
		}
		s.Must("rm", needsDropIn)
		s.Must("sh", "-c", c.end)
		s.Must("systemctl", "daemon-reload")
		s.Must("systemctl", "start", "teleport")
		s.Serves("1.1.0")
	}
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
}

// What an ordinary unit has keeps no change from beginning.
func TestWhatOrdinaryUnitsNeedRefusesNothing(t *testing.T) {
	s := needing(t)
	s.Write("/etc/systemd/system/secrets.service", "[Service]\nType=oneshot\nExecStart=/bin/mkdir -p /run/work\n")
	s.Write("/etc/systemd/system/keeps.service", runsForEver)
	s.Write("/etc/systemd/system/mnt-data.mount", "[Mount]\nWhat=tmpfs\nWhere=/mnt/data\nType=tmpfs\n")
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "start", "keeps")
	for name, dropIn := range map[string]string{
		"what all have": "[Unit]\nWants=network-online.target gone.service\nRequires=system.slice sysinit.target -.mount basic.target\n" +
			"After=network-online.target nss-lookup.target local-fs.target gone.service\nBefore=other-gone.service\n" +
			"RequiresMountsFor=/srv/x /var/lib/teleport /run/user /mnt/data/x\n",
		"units that run": "[Unit]\nRequires=keeps.service\nRequisite=keeps.service\nBindsTo=keeps.service\nAfter=keeps.service\n",
		"one that starts first, and brings files": "[Unit]\nRequires=secrets.service\nAfter=secrets.service\n" +
			"[Service]\nWorkingDirectory=/run/work\n",
		"folders that are made":   "[Service]\nStateDirectory=made\nWorkingDirectory=/var/lib/made\nLogNamespace=agents\nPrivateTmp=yes\n",
		"folders that are hidden": "[Service]\nTemporaryFileSystem=/srv\nBindPaths=/mnt:/srv/bound\nWorkingDirectory=/srv/bound\n",
		"limits, and what may be missing": "[Unit]\nConditionPathIsMountPoint=/run\nConditionPathIsMountPoint=!/srv\n" +
			"[Service]\nWorkingDirectory=-/gone\nEnvironmentFile=-/gone\nExecStartPre=-/bin/false\nGroup=root\nSupplementaryGroups=adm 4\n" +
			"LimitNOFILE=65536\nMemoryMax=1G\nTasksMax=512\nTimeoutStartSec=500ms\nEnvironment=OTHER=1\n",
	} {
		for _, read := range []bool{true, false} {
			s.drops(dropIn, read)
			if read {
				s.Must("systemctl", "restart", "teleport")
				s.Serves("1.1.0")
			}
			s.Must("rm", "-rf", "/run/work")
			r := s.Try(updater, "rollback")
			if r.Code != 0 {
				t.Errorf("%s, read by systemd: %v: the rollback ends with %d:\n%s", name, read, r.Code, r.Stderr)
			}
			if said := s.Status(); said.State.Alarming() {
				t.Errorf("%s, read by systemd: %v: status is %s: %+v", name, read, said.State, said.Conditions)
			}
			s.Must("rm", needsDropIn)
			s.Must("systemctl", "daemon-reload")
			s.Must(updater, "update", "--now")
			s.Serves("1.1.0")
		}
	}
}

// What a start needs and does not get, although nothing was to be seen before, is no fault of a version's: none is blamed, the
// transaction stays open, and each run of the timer starts the agent until it runs.
func TestAStartThatOtherUnitsPreventIsTriedInEachRun(t *testing.T) {
	s := needing(t)
	s.Write("/etc/systemd/system/secrets.service", "[Service]\nType=oneshot\nExecStart=/usr/bin/test -e /run/vault\n")
	const brokenOnce = "[ ! -e /run/break ] || { rm /run/break; ln -sf /dev/null /etc/systemd/system/other.service; systemctl daemon-reload; }"
	for _, c := range []struct{ name, dropIn, begin, mend, says string }{
		{"a required unit fails", "[Unit]\nRequires=secrets.service\nAfter=secrets.service\n", "true", "touch /run/vault", "secrets.service (Requires=) is failed"},
		{"a required unit is masked with the stop", "[Unit]\nRequires=other.service\n[Service]\nExecStopPost=/bin/sh -c '" + brokenOnce + "'\n",
			"touch /run/break", "printf '[Service]\nExecStart=/bin/sleep 9\n' >/run/other; mv /run/other /etc/systemd/system/other.service; systemctl daemon-reload", "Unit other.service is masked"},
		{"the unit is wrong from the stop on", "[Service]\nExecStopPost=/bin/sh -c '[ ! -e /run/break ] || { rm /run/break; " +
			"mkdir -p /run/systemd/system/teleport.service.d; printf \"[Service]\\\\nRestart=always\\\\nType=oneshot\\\\n\" " +
			">/run/systemd/system/teleport.service.d/60-bad.conf; }'\n",
			"touch /run/break", "rm /run/systemd/system/teleport.service.d/60-bad.conf; systemctl daemon-reload", "as bad-setting"},
	} {
		s.Write("/etc/systemd/system/other.service", runsForEver)
		s.drops(c.dropIn, true)
		s.Must("sh", "-c", c.begin)
		r := s.Try(updater, "rollback")
		if r.Code == 0 || !strings.Contains(r.Stderr, c.says) {
			t.Errorf("%s: the rollback ends with %d:\n%s", c.name, r.Code, r.Stderr)
		}
		s.LinkedFiles("1.1.0")
		for range 3 {
			s.Tick()
			if state := s.Show("teleport.service", "ActiveState"); state == "active" {
				t.Errorf("%s: the agent runs: the test shows nothing", c.name)
			}
			if said := s.Status(); !said.State.Alarming() || said.FailedVersion != nil {
				t.Errorf("%s: status is %s, and blames %+v: %+v", c.name, said.State, said.FailedError, said.Conditions)
			}
		}
		s.Must("sh", "-c", c.mend)
		s.Tick()
		s.Serves("1.1.0")
		s.Closed()
		s.Must("rm", needsDropIn)
		s.Must("sh", "-c", "rm -f /etc/systemd/system/other.service /run/vault; systemctl daemon-reload")
	}
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
}

// systemd reads changed files before anything that follows is asked, and not when the agent is down.
func TestChangedUnitsAreReadBeforeAChange(t *testing.T) {
	s := needing(t)
	for _, c := range []struct{ name, dropIn, says string }{
		{"a condition", "[Unit]\nConditionPathExists=/nowhere\n", "ConditionPathExists=/nowhere"},
		{"a refused start", "[Unit]\nRefuseManualStart=yes\n", "RefuseManualStart="},
		{"a user", "[Service]\nUser=nobody-such\n", "status 217, USER"},
		{"a view", "[Service]\nProtectSystem=strict\n", "ProtectSystem=strict"},
		{"a need", "[Unit]\nRequires=gone.service\n", "gone.service"},
		{"a wrong setting", "[Service]\nType=oneshot\nRestart=always\n", "bad-setting"},
		{"another place", "[Service]\nExecStart=\nExecStart=/usr/local/bin/teleport start --data-dir=/srv/other --pid-file=/run/teleport.pid\n", "/srv/other"},
	} {
		before := s.Seen()
		s.drops(c.dropIn, false)
		s.names(c.name, "older text")
		if r := s.Try(updater, "rollback", "--dry-run"); !strings.Contains(r.Stdout+r.Stderr, "older text") && c.name != "another place" {
			t.Errorf("%s: a dry run says\n%s%s", c.name, r.Stdout, r.Stderr)
		}
		if got := s.Show("teleport.service", "DropInPaths"); strings.Contains(got, needsDropIn) {
			t.Errorf("%s: systemd has read the files, and nobody has changed anything", c.name)
		}
		r := s.Try(updater, "rollback")
		if r.Code == 0 || !strings.Contains(r.Stderr, c.says) {
			t.Errorf("%s: the rollback ends with %d:\n%s", c.name, r.Code, r.Stderr)
		}
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s", c.name, got)
		}
		s.Closed()
		s.Must("rm", needsDropIn)
		s.Must("systemctl", "daemon-reload")
		s.Must("systemctl", "start", "teleport")
		s.Serves("1.1.0")
	}
	const recovery = "/etc/systemd/system/teleport-update-recover.service.d/95-other.conf"
	s.Write(recovery, "[Unit]\nConditionPathExists=/nowhere\n")
	s.names("the recovery", "older text of teleport-update-recover.service")
	s.Fails(1, "cannot be counted on", updater, "rollback")
	s.Must("rm", recovery)
	s.Must("systemctl", "daemon-reload")
	if r := s.Status(); r.State != decision.Held && r.State.Alarming() {
		t.Errorf("status is %s: %+v", r.State, r.Conditions)
	}
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
}
