//go:build hosts

package systemd

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// waitingUnits are the units of these tests, by their names without the test's own part.
func waitingUnits(t *testing.T, prefix string, texts map[string]string) (conn *Conn, name func(string) string, systemctl func(args ...string)) {
	t.Helper()
	conn = dialHost(t)
	name = func(unit string) string { return prefix + "-" + unit + ".service" }
	systemctl = func(args ...string) {
		t.Helper()
		if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
			t.Fatalf("systemctl %q: %v: %s", args, err, out)
		}
	}
	for unit, text := range texts {
		file := "/etc/systemd/system/" + name(unit)
		writeHostFile(t, file, strings.ReplaceAll(text, "PREFIX", prefix))
	}
	t.Cleanup(func() {
		// First all of them: the stop of one may wait for that of another. A stop that begins after a kill has a command of its own.
		for range 5 {
			for _, verb := range []string{"stop --no-block", "kill --signal=KILL"} {
				for unit := range texts {
					exec.Command("systemctl", append(strings.Fields(verb), name(unit))...).Run()
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		for unit := range texts {
			exec.Command("systemctl", "reset-failed", name(unit)).Run()
			os.Remove("/etc/systemd/system/" + name(unit))
		}
	})
	systemctl("daemon-reload")
	return conn, name, systemctl
}

const (
	needed = "[Unit]\nRequires=PREFIX-needs.service\nAfter=PREFIX-needs.service PREFIX-stage.service\n[Service]\nExecStart=/bin/sleep infinity\n"
	sleeps = "[Service]\nType=oneshot\nExecStart=/bin/sleep infinity\n"
	aside  = "[Unit]\nPartOf=PREFIX-agent.service\nAfter=PREFIX-agent.service\n[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sleep infinity\n"
)

// How long a job waits for others depends on what they are.
func TestHostTheWaitForJobsOfOtherUnits(t *testing.T) {
	for _, tc := range []struct {
		name  string
		texts map[string]string
		first []string // what systemctl does before
		verb  Verb
		by    string
		want  time.Duration
	}{
		{"a stop of a dependent that ends", map[string]string{"agent": needed, "aside": aside}, []string{"agent", "aside"}, VerbStop, "aside", JobCap},
		{"a stop of a dependent without an end", map[string]string{"agent": needed, "aside": aside + "TimeoutStopSec=infinity\n"},
			[]string{"agent", "aside"}, VerbStop, "aside", openPatience},
		{"a start of what is needed", map[string]string{"agent": needed, "needs": sleeps + "TimeoutStartSec=90\n"}, nil, VerbStart, "needs", JobCap},
		{"a start of what is needed, without an end", map[string]string{"agent": needed, "needs": sleeps}, nil, VerbStart, "needs", openPatience},
		{"a start that was there before", map[string]string{"agent": needed, "stage": sleeps}, []string{"stage"}, VerbStart, "stage", waitLimit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			prefix := "waits-" + strings.ReplaceAll(strings.ReplaceAll(tc.name, " ", "-"), ",", "")
			texts := map[string]string{"needs": "[Service]\nType=oneshot\nExecStart=/bin/true\n"}
			for unit, text := range tc.texts {
				texts[unit] = text
			}
			conn, name, systemctl := waitingUnits(t, prefix, texts)
			for _, unit := range tc.first {
				if unit == "stage" {
					systemctl("start", "--no-block", name(unit))
				} else {
					systemctl("start", name(unit))
				}
			}
			p, err := conn.QueueJob(t.Context(), tc.verb, name("agent"))
			if err != nil {
				t.Fatal(err)
			}
			u, err := conn.Unit(t.Context(), name("agent"))
			if err != nil || u.Job.ID != p.ID || !conn.notBegun(t.Context(), u.Job) {
				t.Fatalf("%+v, %v: the job does not wait", u.Job, err)
			}
			jobs, err := conn.ahead(t.Context(), name("agent"), tc.verb)
			// What the agent needs, and ends at once, may not have ended yet.
			for range 100 {
				if err != nil || len(jobs) <= 1 {
					break
				}
				time.Sleep(50 * time.Millisecond)
				jobs, err = conn.ahead(t.Context(), name("agent"), tc.verb)
			}
			if err != nil || !slices.Equal(namesOf(jobs), []string{name(tc.by)}) {
				t.Fatalf("it waits for %q, %v; want %s", namesOf(jobs), err, name(tc.by))
			}
			if got := conn.patience(t.Context(), p, jobs); got != tc.want {
				t.Errorf("it waits for %v; want %v", got, tc.want)
			}
			if got := conn.patience(t.Context(), PendingJob{Verb: VerbReload, ID: p.ID}, jobs); got != waitLimit {
				t.Errorf("a reload waits for %v", got)
			}

			// A stop that is given up is taken back, and a start stays.
			err = conn.giveUp(t.Context(), p, u.Job, tc.verb, &BlockedError{Unit: p.Unit, By: namesOf(jobs)})
			if job, ok := errors.AsType[*JobError](err); !ok || job.Result != ResultWaiting || !strings.Contains(err.Error(), name(tc.by)) {
				t.Errorf("it is given up with %v", err)
			}
			u, err = conn.Unit(t.Context(), name("agent"))
			if err != nil || u.JobPending != (tc.verb == VerbStart) || u.Running() != (tc.verb == VerbStop) {
				t.Errorf("then the unit is %s, with a job: %v, %v", u.ActiveState, u.JobPending, err)
			}
		})
	}
}

// A start that waits for others without an end takes back the starts that it brought with it, if it can do without them.
func TestHostAStartOfWhatIsOnlyWantedIsTakenBack(t *testing.T) {
	const wants = "[Unit]\nWants=PREFIX-wanted.service\nAfter=PREFIX-wanted.service PREFIX-stage.service\n[Service]\nExecStart=/bin/sleep infinity\n"
	needs := strings.ReplaceAll(wants, "Wants=", "Requires=")
	for _, tc := range []struct {
		name, agent string
		first       string // what is started before
		want        bool
	}{
		{"wanted", wants, "", true},
		{"needed", needs, "", false},
		{"before", wants, "stage", false},
		{"neither", strings.ReplaceAll(wants, "Wants=PREFIX-wanted.service", "Wants=PREFIX-other.service"), "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conn, name, systemctl := waitingUnits(t, "taken-"+tc.name, map[string]string{"agent": tc.agent, "wanted": sleeps, "stage": sleeps,
				"other": "[Unit]\nWants=PREFIX-wanted.service\n" + sleeps})
			if tc.first != "" {
				systemctl("start", "--no-block", name(tc.first))
			}
			var others []string
			conn.Withdrew = func(_ string, names []string) { others = names }
			p, err := conn.QueueJob(t.Context(), VerbStart, name("agent"))
			if err != nil {
				t.Fatal(err)
			}
			u, err := conn.Unit(t.Context(), name("agent"))
			if err != nil {
				t.Fatal(err)
			}
			// systemd begins what is queued once nobody asks it anything; a start that is taken back before has begun nothing.
			for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				wanted, err := conn.Unit(t.Context(), name("wanted"))
				if err != nil || time.Since(began) > patience {
					t.Fatalf("what it waits for is %s, %v", wanted.ActiveState, err)
				}
				if wanted.ActiveState == "activating" {
					break
				}
			}
			jobs, err := conn.ahead(t.Context(), name("agent"), VerbStart)
			if err != nil || len(jobs) == 0 {
				t.Fatalf("it waits for %q, %v", namesOf(jobs), err)
			}
			if got := conn.withdraw(t.Context(), p, u, jobs); got != tc.want {
				t.Errorf("the starts of others were taken back: %v; want %v", got, tc.want)
			}
			if !tc.want {
				return
			}
			if err := conn.WaitJob(t.Context(), p, time.Minute); err != nil {
				t.Error(err)
			}
			u, err = conn.Unit(t.Context(), name("agent"))
			if err != nil || !u.Running() || !slices.Equal(others, []string{name("wanted")}) {
				t.Errorf("then the unit is %s, %v, and told was %q", u.ActiveState, err, others)
			}
			if other, err := conn.Unit(t.Context(), name("wanted")); err != nil || other.ActiveState != "activating" {
				t.Errorf("what it wants is %s, %v", other.ActiveState, err)
			}
		})
	}
}

// A unit that crashed is started by nobody once systemd was to start it again while a stop waited that is then taken
// back, and a start of it waits for ever.
func TestHostAStartOfAUnitThatSystemdWasToStartAgain(t *testing.T) {
	t.Parallel()
	conn, name, systemctl := waitingUnits(t, "crashed", map[string]string{
		"agent": "[Service]\nExecStart=/bin/sleep infinity\nRestart=always\nRestartSec=1s\n",
		"aside": aside,
	})
	systemctl("start", name("agent"), name("aside"))
	state := func() Unit {
		u, err := conn.Unit(t.Context(), name("agent"))
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	crashed := func(since time.Duration) {
		t.Helper()
		for began := time.Now(); !strings.HasPrefix(state().SubState, "auto-restart") || state().InState < since; time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatalf("the unit is %s", state().SubState)
			}
		}
	}
	// The main process alone: a kill of all fails if the last one ends before systemd has asked for them.
	systemctl("kill", "--kill-who=main", "--signal=KILL", name("agent"))
	crashed(0)
	p, err := conn.QueueJob(t.Context(), VerbStop, name("agent"))
	if err != nil {
		t.Fatal(err)
	}
	crashed(2 * time.Second)
	if err := conn.cancelJob(t.Context(), state().Job); err != nil {
		t.Fatalf("take back job %d: %v", p.ID, err)
	}
	systemctl("kill", "--kill-who=control", "--signal=KILL", name("aside")) // its stop is over
	if err := conn.Start(t.Context(), name("agent")); err != nil || !state().Running() {
		t.Errorf("it is %s, %v", state().SubState, err)
	}
}
