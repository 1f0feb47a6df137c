//go:build hosts

package units

import (
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// What the real systemd would refuse, or would not begin, is found before the agent is touched, and
// what goes down with the agent comes back.
func TestWhatSystemdWillNotDoIsFoundBeforeTheAgentIsTouched(t *testing.T) {
	s := newScene(t)
	s.Release(release.Spec{Version: "1.0.0", Schema: 1})
	s.Release(release.Spec{Version: "1.1.0", Schema: 2})
	s.RunsOn("1.0.0", "--health-window", "1s")
	s.Updates("1.1.0")
	s.Write("/etc/systemd/system/slow.service", "[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\nTimeoutStartSec=infinity\n")
	s.Write("/etc/systemd/system/keeper.service", "[Unit]\nUpholds=teleport.service\n[Service]\nExecStart=/bin/sleep infinity\n")
	s.Write("/etc/systemd/system/finder.path", "[Path]\nPathExists=/etc/teleport.yaml\nUnit=teleport.service\n")
	const dropIn = "/etc/systemd/system/teleport.service.d/50-test.conf"
	for _, c := range []struct{ name, dropIn, begin, end, says string }{
		{"a refused stop", "[Unit]\nRefuseManualStop=yes\n", "true", "true", "RefuseManualStop="},
		{"a refused start", "[Unit]\nRefuseManualStart=yes\n", "true", "true", "RefuseManualStart="},
		{"a reboot after a stop", "[Unit]\nSuccessAction=reboot\n", "true", "true", "SuccessAction=reboot"},
		{"a host that a failure ends", "[Unit]\nFailureAction=poweroff-force\n", "true", "true", "FailureAction=poweroff-force"},
		{"a host that a start limit ends", "[Unit]\nStartLimitAction=poweroff\n", "true", "true", "StartLimitAction=poweroff"},
		{"a host that a long job ends", "[Unit]\nJobTimeoutAction=poweroff-force\nJobTimeoutSec=1h\n", "true", "true",
			"JobTimeoutAction=poweroff-force"},
		{"a target after a stop", "[Unit]\nOnSuccess=poweroff.target\n", "true", "true", "OnSuccess=poweroff.target"},
		{"a reboot by a target after a stop", "[Unit]\nOnSuccess=ctrl-alt-del.target\n", "true", "true", "OnSuccess=reboot.target"},
		{"a service after a failure", "[Unit]\nOnFailure=systemd-halt.service\n", "true", "true", "OnFailure=systemd-halt.service"},
		{"a condition", "[Unit]\nConditionPathExists=/nowhere\n", "true", "true", "ConditionPathExists=/nowhere"},
		{"an assertion", "[Unit]\nAssertPathExists=!/etc\n", "true", "true", "AssertPathExists=!/etc"},
		{"a unit that activates", "[Unit]\nAfter=slow.service\n", "systemctl start --no-block slow", "systemctl stop slow", "slow.service"},
		{"a unit that upholds it", "[Unit]\n", "systemctl start keeper", "systemctl stop keeper", "keeper.service"},
		{"a path unit that starts it", "[Unit]\n", "systemctl start finder.path", "systemctl stop finder.path", "finder.path"},
		{"a condition of which one is enough", "[Unit]\nConditionPathExists=|/nowhere\n", "true", "true", "ConditionPathExists=|/nowhere"},
		{"a condition, and an assertion that holds", "[Unit]\nConditionPathExists=|/nowhere\nAssertPathExists=|/etc\n", "true", "true",
			"ConditionPathExists=|/nowhere"},
		{"an assertion, and a condition that holds", "[Unit]\nConditionPathExists=|/etc\nAssertPathExists=|/nowhere\n", "true", "true",
			"AssertPathExists=|/nowhere"},
		{"a condition on the host", "[Unit]\nConditionHost=nobody\n", "true", "true", "ConditionHost=nobody"},
		{"a variable of systemd's", "[Unit]\nConditionEnvironment=NO_SUCH_VARIABLE\n", "true", "true", "ConditionEnvironment=NO_SUCH_VARIABLE"},
		{"rights of systemd's", "[Unit]\nAssertCapability=!CAP_CHOWN\n", "true", "true", "AssertCapability=!CAP_CHOWN"},
		{"CPUs", "[Unit]\nConditionCPUs=>100000\n", "true", "true", "ConditionCPUs=>100000"},
		{"a mask", "[Unit]\n", "systemctl mask teleport", "systemctl unmask teleport", "masked"},
		{"programs that are hidden", "[Service]\nInaccessiblePaths=/opt\n", "true", "true", "InaccessiblePaths=/opt"},
		{"a file system over the data", "[Service]\nTemporaryFileSystem=/var/lib\n", "true", "true", "TemporaryFileSystem=/var/lib"},
		{"data that are read-only", "[Service]\nReadOnlyPaths=/var/lib/teleport\n", "true", "true", "ReadOnlyPaths=/var/lib/teleport"},
		{"another folder over the data", "[Service]\nBindPaths=/srv:/var/lib/teleport\n", "true", "true", "BindPaths=/srv:/var/lib/teleport"},
		{"another root", "[Service]\nRootDirectory=/srv\n", "true", "true", "RootDirectory=/srv"},
		{"a command of mode 644", "[Service]\nExecStartPre=/srv/hook\n", "echo '#!/bin/sh' >/srv/hook", "rm /srv/hook", "ExecStartPre=/srv/hook"},
		{"a condition of mode 644", "[Service]\nExecCondition=/srv/hook\n", "echo '#!/bin/sh' >/srv/hook", "rm /srv/hook", "ExecCondition=/srv/hook"},
		{"a command without its interpreter", "[Service]\nExecStartPre=/srv/hook\n", "echo '#!/srv/sh' >/srv/hook; chmod 755 /srv/hook",
			"rm /srv/hook", "ExecStartPre=/srv/hook"},
		{"a command afterwards that is missing", "[Service]\nExecStartPost=/srv/hook\n", "true", "true", "ExecStartPost=/srv/hook"},
		{"a CPU that the host lacks", "[Service]\nCPUAffinity=1023\n", "true", "true", "status 215, CPUAFFINITY"},
		{"a file for a folder of logs", "[Service]\nLogsDirectory=taken\n", "touch /var/log/taken", "rm /var/log/taken", "LogsDirectory=taken"},
		{"a file for a folder of data", "[Service]\nStateDirectory=taken\n", "touch /var/lib/taken", "rm /var/lib/taken", "StateDirectory=taken"},
		{"a file for a folder in /run", "[Service]\nRuntimeDirectory=taken\n", "touch /run/taken", "rm /run/taken", "RuntimeDirectory=taken"},
		{"a file above a folder of settings", "[Service]\nConfigurationDirectory=taken/a\n", "touch /etc/taken", "rm /etc/taken",
			"ConfigurationDirectory=taken/a"},
		{"a log whose folder is missing", "[Service]\nStandardOutput=append:/srv/gone/agent.log\n", "true", "true",
			"status 222, STDERR"}, // systemd opens it for errors, too
		{"errors whose folder is missing", "[Service]\nStandardError=file:/srv/gone/agent.log\n", "true", "true",
			"status 222, STDERR"},
		{"input that is missing", "[Service]\nStandardInput=file:/srv/gone\n", "true", "true", "status 208, STDIN"},
	} {
		s.Write(dropIn, c.dropIn)
		s.Must("systemctl", "daemon-reload")
		s.Must("sh", "-c", c.begin)
		before := s.Seen()
		// status and verify say so before anybody asks for a change: as a fault, or as a change that would be refused. The commands of
		// this test have other capabilities than process 1, and cannot tell what it has. A canary alone finds an exit status.
		tells := !strings.Contains(c.says, "Capability=") && !strings.HasPrefix(c.says, "status ")
		if r := s.Status(); tells && !slices.ContainsFunc(r.Conditions, func(found decision.Condition) bool { return strings.Contains(found.Message, c.says) }) {
			t.Errorf("%s: status is %s, %+v", c.name, r.State, r.Conditions)
		}
		if r := s.Try(updater, "verify"); tells && !strings.Contains(r.Stdout, c.says) {
			t.Errorf("%s: verify ends with %d:\n%s", c.name, r.Code, r.Stdout)
		}
		s.Fails(1, c.says, updater, "rollback")
		if got := before.Became(s.Seen()); got != scenes.InPeace {
			t.Errorf("%s: the agent was %s", c.name, got)
		}
		s.Closed()
		s.Must("sh", "-c", c.end)
		s.Must("rm", dropIn)
		s.Must("systemctl", "daemon-reload")
	}

	s.refusesWithinCloudInit(dropIn)
	dependents := s.dependents()
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	s.areUp(dependents, "after the rollback")
	s.Release(release.Spec{Version: "1.2.0", Schema: 3, Variant: stamp.CrashLoops})
	s.Must(updater, "enable", "--health-window", scenes.Window)
	s.Must(updater, "update", "--now") // the rollback holds the host
	s.Wants("1.2.0")
	s.Fails(1, "version 1.2.0 was not healthy", updater, "update", "--now")
	s.Serves("1.1.0")
	s.areUp(dependents, "after a version that failed")

	// One that does not start again keeps nothing from going on, and is told of.
	s.Write("/etc/systemd/system/with-requires.service.d/50-test.conf", "[Service]\nExecStartPre=/bin/false\n")
	s.Must("systemctl", "daemon-reload")
	s.Must(updater, "rollback")
	s.Serves("1.0.0")
	if got := s.Show("with-requires.service", "ActiveState"); got == "active" {
		t.Error("the unit that fails starts: the test shows nothing")
	}
	if said := scenes.Text(s.Status().LastError); !strings.Contains(said, "with-requires.service") || !strings.Contains(said, "did not start again") {
		t.Errorf("of the unit that did not start again status says %q", said)
	}
}

// refusesWithinCloudInit has the last stage of cloud-init change the version of an agent that systemd starts after that stage:
// what the stage waits for would wait for the stage.
func (s *scene) refusesWithinCloudInit(dropIn string) {
	s.T.Helper()
	s.Write("/etc/systemd/system/cloud-final.service", "[Service]\nType=oneshot\nTimeoutStartSec=60\n"+
		"ExecStart=/bin/sh -c 'exec "+updater+" rollback >/run/said 2>&1'\n")
	s.Write(dropIn, "[Unit]\nAfter=cloud-final.service\n")
	s.Must("systemctl", "daemon-reload")
	before := s.Seen()
	s.Try("systemctl", "start", "cloud-final")
	if got := s.Show("cloud-final.service", "ExecMainStatus"); got != "1" {
		s.T.Errorf("within cloud-init's last stage the rollback ends with %s", got)
	}
	if said := s.Read("/run/said"); !strings.Contains(said, "teleport.service waits for cloud-final.service") || !strings.Contains(said, "the agent stays on version") {
		s.T.Errorf("within cloud-init's last stage it says\n%s", said)
	}
	if got := before.Became(s.Seen()); got != scenes.InPeace {
		s.T.Errorf("within cloud-init's last stage the agent was %s", got)
	}
	s.Closed()
	s.Must("rm", dropIn, "/etc/systemd/system/cloud-final.service")
	s.Must("systemctl", "daemon-reload")
}

// dependents starts units of each kind that goes down with the agent, some of them by others.
func (s *scene) dependents() (all []string) {
	const runs = "[Service]\nExecStart=/bin/sleep infinity\n"
	for name, text := range map[string]string{
		"with-requires.service":  "[Unit]\nRequires=teleport.service\nAfter=teleport.service\n" + runs,
		"with-requisite.service": "[Unit]\nRequisite=teleport.service\nAfter=teleport.service\n" + runs,
		"with-bindsto.service":   "[Unit]\nBindsTo=teleport.service\nAfter=teleport.service\n" + runs,
		"with-partof.service":    "[Unit]\nPartOf=teleport.service\n" + runs,
		"with-stop.service":      "[Unit]\nStopPropagatedFrom=teleport.service\n" + runs,
		"with-far.service":       "[Unit]\nRequires=with-requires.service\nAfter=with-requires.service\n" + runs,
		"with-timer.timer":       "[Unit]\nPartOf=teleport.service\n[Timer]\nOnCalendar=2099-01-01\nUnit=with-partof.service\n",
		"with-socket.socket":     "[Unit]\nBindsTo=teleport.service\n[Socket]\nListenStream=/run/with.sock\nService=with-inner.service\n",
		"with-target.target":     "[Unit]\nRequires=teleport.service\n",
		"with-inner.service":     "[Unit]\nPartOf=with-target.target\n" + runs,
	} {
		s.Write("/etc/systemd/system/"+name, text)
		all = append(all, name)
	}
	s.Must("systemctl", "daemon-reload")
	s.Must("systemctl", "start", "with-socket.socket") // systemd refuses it while its service runs
	s.Must(append([]string{"systemctl", "start"}, all...)...)
	// Each of them goes down with the agent, and a start leaves it down.
	s.Must("systemctl", "restart", "teleport")
	return all
}

func (s *scene) areUp(units []string, when string) {
	s.T.Helper()
	for _, unit := range units {
		if got := s.Show(unit, "ActiveState"); got != "active" {
			s.T.Errorf("%s %s is %s", when, unit, got)
		}
	}
}
