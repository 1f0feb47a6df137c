//go:build hosts

package recovery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

// Who closes a transaction in a shell that the agent serves is in the agent's own
// control group: were it the shell's command that waits for the agent to stop, the
// agent would wait for it, and be down until the timer's next run.
func TestARecoveryOutlivesTheShellThatTheAgentRuns(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"update", "recover"} {
		t.Run(command, func(t *testing.T) {
			s := newScene(t)
			s.Sound("1.0.0", "1.1.0")
			s.RunsOn("1.0.0")
			s.Wants("1.1.0")
			s.KilledInMidWatch("1.1.0")
			s.killedInSecondWatch()
			r := s.diesInSession(command)
			if n := strings.Count(r.Stderr, "closing a transaction that was cut off"); n != 1 {
				t.Errorf("the shell is told %d times that a transaction is closed:\n%s", n, r.Stderr)
			}
			s.Closed()
			s.Serves("1.0.0")
			if r := s.Status(); scenes.Text(r.LastResult) != "interrupted" || r.FailedVersion != nil {
				t.Errorf("status: last result %s, failed %s", scenes.Text(r.LastResult), scenes.Text(r.FailedVersion))
			}
		})
	}
}

// What follows is as it is in any other shell: the exit codes, each message once,
// and the command's own work after the recovery.
func TestACommandGoesOnAfterARecoveryInAShellThatTheAgentRuns(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	s.KilledInMidWatch("1.1.0")
	s.EditJournal(func(j map[string]any) { j["readable_from"] = 99 })
	for _, command := range []string{"update", "recover"} {
		r := s.survivesInSession(command, 4)
		if n := strings.Count(r.Stderr, "error: "); n != 1 || !strings.Contains(r.Stderr, "; nothing was changed") {
			t.Errorf("%s tells %d errors of a journal that only a newer updater can read:\n%s", command, n, r.Stderr)
		}
	}
	s.EditJournal(func(j map[string]any) { j["readable_from"] = 1 })

	r := s.survivesInSession("pin", 0)
	for _, line := range []string{"the agent is healthy version=1.1.0", "the version is pinned version=1.1.0"} {
		if n := strings.Count(r.Stderr, line); n != 1 {
			t.Errorf("%q is said %d times:\n%s", line, n, r.Stderr)
		}
	}
	s.Serves("1.1.0")
	s.Tidy()
}

func TestARecoveryInAShellThatTheAgentRunsIsKilled(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	s.KilledInMidWatch("1.1.0")
	noMore := s.WatchesLast()
	update := s.inSession("update")
	s.watchedAgain()
	s.KillsMain(scenes.SwitchUnits)
	noMore()
	r, err := update.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if r.Stdout != "survived with 1\n" || !strings.Contains(r.Stderr, "this was cut off: ") {
		t.Errorf("the shell said %q; want 1, and that the recovery was killed:\n%s", r.Stdout, r.Stderr)
	}
	s.Watched("1.1.0")
	s.diesInSession("update")
	s.Closed()
	s.Serves("1.0.0")
}

// inSession runs a command of the updater in a shell that the agent serves.
func (s *scene) inSession(args string) *host.Process {
	s.T.Helper()
	return s.Background(host.Command{Unit: "teleport.service", Args: []string{"sh", "-c", updater + " " + args + "; echo survived with $?"}})
}

// diesInSession is such a command that stops the agent, and all that it serves.
func (s *scene) diesInSession(args string) host.Result {
	s.T.Helper()
	r, err := s.inSession(args).Wait()
	if err != nil {
		s.T.Fatal(err)
	}
	if r.Code == 0 || strings.Contains(r.Stdout, "survived") {
		s.T.Fatalf("the shell was to die with the agent, but ended with %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	return r
}

// survivesInSession is one that leaves the agent in peace.
func (s *scene) survivesInSession(args string, code int) host.Result {
	s.T.Helper()
	r, err := s.inSession(args).Wait()
	if err != nil {
		s.T.Fatal(err)
	}
	if want := fmt.Sprintf("survived with %d\n", code); r.Stdout != want {
		s.T.Errorf("the shell said %q; want %q:\n%s", r.Stdout, want, r.Stderr)
	}
	return r
}

func TestAnUpdateOutlivesTheShellThatTheAgentRuns(t *testing.T) {
	s := newScene(t)
	restarts := release.Unit{NoReload: true, RestartDelay: 300 * time.Millisecond}
	s.Release(release.Spec{Version: "1.0.0", Unit: restarts})
	s.Release(release.Spec{Version: "1.1.0", Unit: restarts})
	s.Release(release.Spec{Version: "1.2.0", Unit: restarts, Variant: stamp.ExitsAtStart})
	s.RunsOn("1.0.0")

	s.Wants("1.1.0")
	s.diesInSession("update")
	s.Closed()
	s.Serves("1.1.0")

	s.Wants("1.2.0")
	s.diesInSession("update")
	s.Closed()
	s.Serves("1.1.0")
	if r := s.Status(); scenes.Text(r.FailedVersion) != "1.2.0" || scenes.Text(r.LastResult) != "rolled_back" {
		t.Errorf("status: failed %s, last result %s", scenes.Text(r.FailedVersion), scenes.Text(r.LastResult))
	}
}
