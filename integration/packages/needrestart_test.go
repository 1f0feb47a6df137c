//go:build hosts

package packages

import (
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
)

func TestNeedrestartLeavesTheAgentToTheUpdater(t *testing.T) {
	s := bareScene(t, host.Options{Packages: []string{"needrestart"}})
	s.Path = scenes.Packaged
	s.Sound("1.0.0")
	s.AptRepository(scenes.PackageOf(t, "teleport-update", scenes.PackageOld, "deb"))
	s.Apt("install", "teleport-update")
	s.RunsOn("1.0.0", "--health-window", "1s")

	// As after an upgrade of a library: what the process runs is not what is on
	// disk any more.
	outdated := func() (before, after string) {
		t.Helper()
		program := programs + "/1.0.0/bin/teleport"
		s.Must("cp", "--preserve", program, program+".new")
		s.Must("mv", program+".new", program)
		before = s.AgentProcess()
		r := s.Try("needrestart", "-r", "a", "-l", "-v")
		t.Logf("needrestart ends with %d and says:\n%s%s", r.Code, r.Stdout, r.Stderr)
		if !strings.Contains(r.Stdout+r.Stderr, "teleport.service") {
			t.Fatal("needrestart does not see that the agent is outdated: the test shows nothing")
		}
		return before, s.AgentProcess()
	}
	if before, after := outdated(); after != before {
		t.Errorf("needrestart restarted the agent: it was %s and is %s", before, after)
	}
	s.Must("mv", "/etc/needrestart/conf.d/teleport-updater.conf", "/root/")
	if before, after := outdated(); after == before {
		t.Error("without the package's configuration needrestart leaves the agent alone, too: the test shows nothing")
	}
}
