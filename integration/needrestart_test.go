//go:build hosts

package integration

import (
	"strings"
	"testing"
)

func TestNeedrestartLeavesTheAgentToTheUpdater(t *testing.T) {
	s := bareScene(t, toolHost)
	s.path = packaged
	s.sound("1.0.0")
	s.aptRepository(packageOf(t, "teleport-update", packageOld, "deb"))
	s.apt("install", "teleport-update")
	s.running("1.0.0", "--health-window", "1s")

	// As after an upgrade of a library: what the process runs is not what is on
	// disk any more.
	outdated := func() (before, after string) {
		t.Helper()
		program := store + "/1.0.0/bin/teleport"
		s.Must("cp", "--preserve", program, program+".new")
		s.Must("mv", program+".new", program)
		before = s.agentProcess()
		r := s.Try("needrestart", "-r", "a", "-l", "-v")
		t.Logf("needrestart ends with %d and says:\n%s%s", r.Code, r.Stdout, r.Stderr)
		if !strings.Contains(r.Stdout+r.Stderr, "teleport.service") {
			t.Fatal("needrestart does not see that the agent is outdated: the test shows nothing")
		}
		return before, s.agentProcess()
	}
	if before, after := outdated(); after != before {
		t.Errorf("needrestart restarted the agent: it was %s and is %s", before, after)
	}
	s.Must("mv", "/etc/needrestart/conf.d/teleport-update.conf", "/root/")
	if before, after := outdated(); after == before {
		t.Error("without the package's configuration needrestart leaves the agent alone, too: the test shows nothing")
	}
}
