package scenes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/integration/host"
)

// Effect is what an update did to the agent's unit.
type Effect string

const (
	InPeace    Effect = "left in peace" // the same run, the same process
	HandedOver Effect = "handed over"   // the same run, another process
	Restarted  Effect = "restarted"     // another run
)

// UntilTakenOver has a reload last until another process has the PID file, so that
// systemd learns of that one while the one before lives.
const UntilTakenOver = `ExecReload=/bin/sh -c 'while [ "$(cat /run/teleport.pid)" = $MAINPID ]; do sleep 0.02; done'`

// ReadyURL is where the agent itself says whether it is ready.
const ReadyURL = "http://127.0.0.1:3000/readyz"

// Near allows for the time that a test takes.
func Near(got, want time.Duration) bool { return got > want-2*time.Minute && got <= want }

// Moment is the agent at one moment: the process that the PID file names, and the
// run of the unit.
type Moment struct{ PID, run string }

// Seen looks at the agent.
func (s *Scene) Seen() Moment {
	s.T.Helper()
	return Moment{strings.TrimSpace(s.Read("/run/teleport.pid")), s.Show("teleport", "InvocationID")}
}

// Became is what happened to the agent since b.
func (b Moment) Became(a Moment) Effect {
	switch {
	case a.run != b.run:
		return Restarted
	case a.PID != b.PID:
		return HandedOver
	}
	return InPeace
}

// Logged returns what the updater has logged in the journal of systemd.
func (s *Scene) Logged() string {
	s.T.Helper()
	s.Must("journalctl", "--sync")
	return s.Must("journalctl", "--quiet", "--no-pager", "--output=cat", "-t", "teleport-update")
}

// Lost asserts that no row of before is lost, that the database fits the version
// that serves, and that this version writes to it.
func (s *Scene) Lost(before Content, serving string) {
	s.T.Helper()
	var d Content
	host.Wait(s.T, Patience, func() error {
		if d = s.Live(); d.Last <= before.Last {
			return fmt.Errorf("version %s writes nothing: %v, before %v", serving, d, before)
		}
		return nil
	})
	if d.Integrity != "ok" || d.Rows != d.Last || d.Schema != 1 {
		s.T.Errorf("the database holds %v, and before the update %v", d, before)
	}
}

// Watched waits until the agent runs a version that is still being watched.
func (s *Scene) Watched(v string) {
	s.T.Helper()
	want := s.Executable(v)
	host.Wait(s.T, Patience, func() error {
		exe := s.Try("sh", "-c", "readlink /proc/$(cat /run/teleport.pid)/exe")
		if got := strings.TrimSpace(exe.Stdout); got != want {
			return fmt.Errorf("the agent executes %q", got)
		}
		return nil
	})
	if !s.Exists(Store + "/journal.json") {
		s.T.Fatal("the watch is over")
	}
}

// BacksOff asserts what status says about a version that failed.
func (s *Scene) BacksOff(v string, attempts int, delay time.Duration) {
	s.T.Helper()
	r := s.Status()
	// The state may be a graver one.
	backsOff := slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return c.Type == decision.VersionBacksOff })
	if !backsOff || Text(r.FailedVersion) != v || r.FailedAttempts == nil || *r.FailedAttempts != attempts ||
		r.NextAttempt == nil || !Near(time.Until(*r.NextAttempt), delay) || r.LastError == nil {
		got := "no"
		if r.FailedAttempts != nil {
			got = fmt.Sprint(*r.FailedAttempts)
		}
		s.T.Errorf("status: %s, version %s failed after %s attempts, the next at %v, error %s; want %s to back off after %d attempts for %v",
			r.State, Text(r.FailedVersion), got, r.NextAttempt, Text(r.LastError), v, attempts, delay)
	}
}

// Tidy asserts that nothing of the update is left running or failed.
func (s *Scene) Tidy() {
	s.T.Helper()
	for _, left := range []string{
		s.Must("systemctl", "list-units", "--plain", "--no-legend", "--all", "teleport-update-switch-*"),
		s.Must("systemctl", "list-units", "--plain", "--no-legend", "--failed"),
	} {
		if left != "" {
			s.T.Errorf("units are left: %s", left)
		}
	}
}

// AgentProcess is the identity of the running agent: a restart changes it, a handover its process. That
// is the one which the PID file names, if there is one: systemd learns of a handover
// when the process before has left.
func (s *Scene) AgentProcess() string {
	s.T.Helper()
	pid, _ := s.ReadFile("/run/teleport.pid")
	return s.Show("teleport", "InvocationID") + " " + strings.TrimSpace(string(pid))
}

// Executes tells whether that is what the agent's main process executes.
func (s *Scene) Executes(file string) error {
	s.T.Helper()
	// A process that was never stopped may run from a file that was put back.
	if got := strings.TrimSuffix(s.MainExecutable("teleport"), " (deleted)"); got != file {
		return fmt.Errorf("the agent executes %q; want %q", got, file)
	}
	return nil
}

// RowsOf counts what a version has written to the agent's database.
func (s *Scene) RowsOf(v string) int {
	s.T.Helper()
	var n int
	r := s.Try("sqlite3", "-cmd", ".timeout 5000", "/var/lib/teleport/proc/sqlite.db", "SELECT count(*) FROM rows WHERE version = '"+v+"'")
	fmt.Sscan(r.Stdout, &n)
	return n
}

// Answers waits until the agent that serves is of a version.
func (s *Scene) Answers(v string) {
	s.T.Helper()
	client := s.HTTP()
	host.Wait(s.T, Patience, func() error {
		response, err := client.Get("http://127.0.0.1:3000/version")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var who struct {
			Version string `json:"version"`
		}
		if err := json.NewDecoder(response.Body).Decode(&who); err != nil || who.Version != v {
			return fmt.Errorf("version %q serves (%v); want %s", who.Version, err, v)
		}
		return nil
	})
}

// RunsFrom waits until the agent executes a program.
func (s *Scene) RunsFrom(program string) {
	s.T.Helper()
	host.Wait(s.T, Patience, func() error { return s.Executes(program) })
}
