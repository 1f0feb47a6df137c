package health

import (
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/health/settings"
	"teleport-update/internal/duration"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

const (
	oldExe = "/var/lib/teleport/versions/1/bin/teleport"
	newExe = "/var/lib/teleport/versions/2/bin/teleport"
)

// scene is what a test sees of a host: it changes in steps, and the judge looks
// at it ten times a second.
type scene struct {
	sample
	stood time.Duration // while nobody looked
}

type step struct {
	at     time.Duration
	change func(*scene)
}

func after(seconds float64, change func(*scene)) step {
	return step{time.Duration(seconds * float64(time.Second)), change}
}

func exeOf(version string) string { return "/var/lib/teleport/versions/" + version + "/bin/teleport" }

// spawn adds a process that the parent started; the main process if the unit has
// none.
func (s *scene) spawn(pid, parent int, exe string) {
	s.group = append(s.group, process{identity{pid, uint64(pid)}, parent, exe, procfs.Process{Exe: exe}.Inside("/var/lib/teleport/versions/2"), false})
	if s.main == nil {
		s.lead(pid)
	}
}

// lead makes a process the main one.
func (s *scene) lead(pid int) {
	p := *member(s.group, pid)
	s.main, s.unit.MainPID = &p, uint32(pid)
}

func (s *scene) die(pid int) {
	var left []process
	for _, p := range s.group {
		if p.pid != pid {
			left = append(left, p)
		}
	}
	s.group = left
	if s.main != nil && s.main.pid == pid {
		s.main = nil
	}
}

// up is a run of the unit that somebody started.
func (s *scene) up(invocation string, pid int, exe string) {
	s.group, s.main = nil, nil
	s.unit = systemd.Unit{ActiveState: "active", SubState: "running", Result: "success", InvocationID: invocation}
	s.spawn(pid, 1, exe)
}

// down is a unit whose processes are gone.
func (s *scene) down(active, sub, result string, code, status int32) {
	s.group, s.main = nil, nil
	s.unit.ActiveState, s.unit.SubState, s.unit.Result = active, sub, result
	s.unit.MainPID, s.unit.Exit = 0, systemd.ExitStatus{Code: code, Status: status}
}

func run(steps []step, ready string, newJudge func(sample) *judge) (verdict, time.Duration) {
	s := &scene{}
	began := time.Unix(1e9, 0)
	var j *judge
	for elapsed := time.Duration(0); elapsed < 6*time.Minute; elapsed += 100 * time.Millisecond {
		for len(steps) > 0 && steps[0].at <= elapsed {
			steps[0].change(s)
			steps = steps[1:]
		}
		s.now = began.Add(elapsed + s.stood)
		if j == nil {
			j = newJudge(s.sample)
			j.rules = rules{Settings: settings.Settings{Window: of(30 * time.Second), ReadyURL: ready}, reloadLimit: 15 * time.Second, startLimit: 90 * time.Second}
		}
		if v := j.observe(s.sample); v.kind != pending {
			return v, elapsed
		}
	}
	return verdict{}, 0
}

type judgement struct {
	name  string
	ready string
	steps []step

	kind     verdictKind
	at       float64 // seconds
	reason   string  // a part of it
	old      bool
	stopped  bool
	baseline uint32
	// neverBegan: of the verdict
	neverBegan bool
}

func (w judgement) check(t *testing.T, newJudge func(sample) *judge) {
	t.Helper()
	v, at := run(w.steps, w.ready, newJudge)
	if v.kind != w.kind || v.kind == unhealthy && v.oldServes != w.old || v.stopped != w.stopped || !strings.Contains(v.reason, w.reason) {
		t.Errorf("after %v: %+v; want kind %d, reason %q, oldServes %v, stopped %v", at, v, w.kind, w.reason, w.old, w.stopped)
	}
	if v.neverBegan != w.neverBegan {
		t.Errorf("%+v; want it never begun: %v", v, w.neverBegan)
	}
	if diff := at.Seconds() - w.at; diff < -0.01 || diff > 0.31 {
		t.Errorf("decided after %v; want %v s", at, w.at)
	}
}

func newUp(s *scene) { s.up("a", 20, newExe) }

func TestAfterARestart(t *testing.T) {
	for _, w := range []judgement{
		{name: "an agent that stays holds at the window's end",
			steps: []step{after(0, newUp)}, kind: held, at: 30},
		{name: "a look that took its time may have seen what was before the window's end",
			steps: []step{after(0, func(s *scene) { newUp(s); s.took = 2 * time.Second })}, kind: held, at: 32},
		{name: "the time in which the host stood still is none of the window",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.stood = time.Hour })}, kind: held, at: 29.1},
		{name: "nor is the time in which its processes are frozen",
			steps: []step{after(0, newUp), after(1, func(s *scene) { s.unit.Frozen = true }), after(100, func(s *scene) { s.unit.Frozen = false })},
			kind:  held, at: 129.1},
		{name: "an agent that dies once it may run again is unhealthy",
			steps: []step{after(0, newUp), after(1, func(s *scene) { s.main.halted = true }), after(100, func(s *scene) { s.main.halted = false }),
				after(101, func(s *scene) { s.down("failed", "failed", "exit-code", systemd.Exited, 1) })},
			kind: unhealthy, at: 101, reason: "exited with status 1"},
		{name: "one that is kept from running is not waited for for ever",
			steps: []step{after(0, newUp), after(1, func(s *scene) { s.main.halted = true })},
			kind:  unhealthy, at: 301, reason: "stopped by SIGSTOP, for 5m0s"},
		{name: "nor of other limits",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.main = nil }), after(11, func(s *scene) { s.stood = time.Hour }), after(14, newUp)},
			kind:  held, at: 29.1},
		{name: "one that systemd has restarted before the first look has died",
			steps: []step{after(0, func(s *scene) { newUp(s); s.unit.NRestarts = 1 })},
			kind:  unhealthy, at: 0, reason: "restarted by systemd"},
		{name: "one that dies is unhealthy while systemd waits to restart it",
			steps: []step{after(0, newUp), after(3, func(s *scene) { s.down("activating", "auto-restart", "exit-code", systemd.Exited, 1) })},
			kind:  unhealthy, at: 3, reason: "exited with status 1, and systemd is about to restart it"},
		{name: "newer systemd has another name for waiting to restart",
			steps: []step{after(0, newUp), after(3, func(s *scene) { s.down("activating", "auto-restart-queued", "exit-code", systemd.Exited, 1) })},
			kind:  unhealthy, at: 3},
		{name: "one that systemd restarted between two looks has died",
			steps: []step{after(0, newUp), after(29, func(s *scene) { s.up("b", 21, newExe); s.unit.NRestarts = 1 })},
			kind:  unhealthy, at: 29, reason: "restarted by systemd"},
		{name: "the count alone tells a restart",
			steps: []step{after(0, newUp), after(29, func(s *scene) { s.unit.NRestarts = 1 })},
			kind:  unhealthy, at: 29},
		{name: "exiting with 0 is a failure",
			steps: []step{after(0, newUp), after(1, func(s *scene) { s.down("inactive", "dead", "success", systemd.Exited, 0) })},
			kind:  unhealthy, at: 1, reason: "exited by itself"},
		{name: "being on the way out is enough",
			steps: []step{after(0, newUp), after(1, func(s *scene) { s.down("deactivating", "stop-sigterm", "success", systemd.Exited, 0) })},
			kind:  unhealthy, at: 1},
		{name: "a signal is named",
			steps: []step{after(0, newUp), after(1, func(s *scene) { s.down("failed", "failed", "signal", systemd.Dumped, 11) })},
			kind:  unhealthy, at: 1, reason: "was killed by SIGSEGV and dumped core"},
		{name: "what systemd reports beyond the exit is told",
			steps: []step{after(0, newUp), after(1, func(s *scene) { s.down("failed", "failed", "watchdog", systemd.Dumped, 6) })},
			kind:  unhealthy, at: 1, reason: `"watchdog"`},
		{name: "a missing program is told",
			steps: []step{after(0, func(s *scene) { newUp(s); s.down("failed", "failed", "exit-code", systemd.Exited, 203) })},
			kind:  unhealthy, at: 0, reason: "could not be executed"},
		{name: "a process that systemd could not set up says that",
			steps: []step{after(0, func(s *scene) { s.down("failed", "failed", "exit-code", systemd.Exited, 217) })},
			kind:  unhealthy, at: 0, reason: "217, USER", neverBegan: true},
		{name: "a process that ran and ends with the same status is no host's doing",
			steps: []step{after(0, newUp), after(1, func(s *scene) { s.down("failed", "failed", "exit-code", systemd.Exited, 217) })},
			kind:  unhealthy, at: 1, reason: "217, USER"},
		{name: "a start that a condition skips is nobody's stop",
			steps: []step{after(0, func(s *scene) { s.down("inactive", "dead", "success", systemd.Killed, 15); s.unit.Skipped = time.Now() })},
			kind:  unhealthy, at: 0, reason: "a condition", neverBegan: true},
		{name: "a service without a process does not run",
			steps: []step{after(0, func(s *scene) { newUp(s); s.unit.SubState = "exited" })},
			kind:  unhealthy, at: 0, reason: "runs no process"},

		{name: "a slow start is waited for and the window begins after it",
			steps: []step{after(0, func(s *scene) { newUp(s); s.unit.ActiveState, s.unit.SubState = "activating", "start" }), after(60, newUp)},
			kind:  held, at: 90},
		{name: "but not for ever",
			steps: []step{after(0, func(s *scene) { newUp(s); s.unit.ActiveState, s.unit.SubState = "activating", "start" })},
			kind:  unhealthy, at: 90.1, reason: "still activating (start)"},
		{name: "the time of a slow start is not counted against a restart later on",
			steps: []step{after(0, func(s *scene) { newUp(s); s.unit.ActiveState, s.unit.SubState = "activating", "start" }), after(70, newUp),
				after(85, func(s *scene) { s.unit.JobPending, s.unit.ActiveState = true, "deactivating" }),
				after(99, func(s *scene) { s.up("b", 30, newExe) })},
			kind: held, at: 129},
		{name: "running is not enough if systemd reports a failure",
			steps: []step{after(0, func(s *scene) { newUp(s); s.unit.Result = "resources" })},
			kind:  unhealthy, at: 0, reason: `"resources"`},
		{name: "a shell that becomes the agent is waited for",
			steps: []step{after(0, func(s *scene) { s.up("a", 20, "/bin/sh") }), after(2, newUp)},
			kind:  held, at: 32},
		{name: "a main process of the old version is unhealthy",
			steps: []step{after(0, func(s *scene) { s.up("a", 20, oldExe) })},
			kind:  unhealthy, at: 5.1, reason: "executes " + oldExe},
		{name: "a version whose name begins alike is another version",
			steps: []step{after(0, func(s *scene) { s.up("a", 20, exeOf("2-rc1")) })},
			kind:  unhealthy, at: 5.1},
		{name: "an executable that was deleted is another one",
			steps: []step{after(0, func(s *scene) { s.up("a", 20, newExe+" (deleted)") })},
			kind:  unhealthy, at: 5.1},
		{name: "a main process that goes over to another program is unhealthy",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.main.exe, s.main.inside = oldExe, false })},
			kind:  unhealthy, at: 10, reason: "went over"},
		{name: "no main process is tolerated for a moment",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.main = nil }), after(12, newUp)},
			kind:  held, at: 30},
		{name: "also a second time",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.main = nil }), after(12, newUp), after(20, func(s *scene) { s.main = nil }), after(22, newUp)},
			kind:  held, at: 30},
		{name: "but not longer",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.main = nil })},
			kind:  unhealthy, at: 15.1, reason: "no main process"},

		{name: "a restart by somebody else begins the window anew",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.up("b", 30, newExe) })},
			kind:  held, at: 40},
		{name: "also when the unit is seen going down and up for it",
			steps: []step{after(0, newUp),
				after(10, func(s *scene) { s.unit.JobPending, s.otherJobs = true, 1; s.unit.ActiveState = "deactivating" }),
				after(11, func(s *scene) { s.up("b", 30, newExe) })},
			kind: held, at: 41},
		{name: "a crash after it is a crash",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.up("b", 30, newExe); s.otherJobs = 1 }),
				after(20, func(s *scene) { s.down("inactive", "dead", "success", systemd.Exited, 0) })},
			kind: unhealthy, at: 20, reason: "exited by itself"},
		{name: "a crash between it and the next look is a crash",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.up("c", 30, newExe); s.unit.NRestarts = 1 })},
			kind:  unhealthy, at: 10},
		{name: "the third restart by somebody else is one too many",
			steps: []step{after(0, newUp),
				after(10, func(s *scene) { s.up("b", 30, newExe) }),
				after(20, func(s *scene) { s.up("c", 40, newExe) }),
				after(30, func(s *scene) { s.up("d", 50, newExe) })},
			kind: unhealthy, at: 30, reason: "too often"},
		{name: "a reload by somebody else begins the window anew",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.spawn(30, 20, newExe); s.lead(30) })},
			kind:  held, at: 40},
		{name: "reloading is running",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.unit.ActiveState, s.unit.SubState = "reloading", "reload" }), after(11, newUp)},
			kind:  held, at: 30},

		{name: "a stop by somebody else is told apart by its job",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.stopJob, s.unit.JobPending = true, true }),
				after(11, func(s *scene) {
					s.down("inactive", "dead", "success", systemd.Exited, 0)
					s.unit.JobPending, s.stopJob = false, false
				})},
			kind: unhealthy, at: 11, stopped: true, reason: "stopped by somebody else"},
		{name: "also when the agent exits with an error when asked to stop",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.stopJob, s.unit.JobPending, s.unit.ActiveState = true, true, "deactivating" }),
				after(11, func(s *scene) {
					s.down("failed", "failed", "exit-code", systemd.Exited, 1)
					s.unit.JobPending, s.stopJob = false, false
				})},
			kind: unhealthy, at: 11, stopped: true},
		{name: "also when the job came and went between two looks",
			steps: []step{after(0, newUp), after(11, func(s *scene) { s.down("inactive", "dead", "success", systemd.Exited, 0); s.otherJobs = 1 })},
			kind:  unhealthy, at: 11, stopped: true},
		{name: "a job that left it running says nothing of an exit later on",
			steps: []step{after(0, newUp), after(5, func(s *scene) { s.otherJobs = 1 }),
				after(11, func(s *scene) { s.down("inactive", "dead", "success", systemd.Exited, 0) })},
			kind: unhealthy, at: 11, reason: "exited by itself"},
		{name: "a job that was heard of while it still ran is a stop all the same",
			steps: []step{after(0, newUp), after(10.9, func(s *scene) { s.otherJobs = 1 }),
				after(11, func(s *scene) { s.down("inactive", "dead", "success", systemd.Exited, 0) })},
			kind: unhealthy, at: 11, stopped: true},
		{name: "also by the signal",
			steps: []step{after(0, newUp), after(11, func(s *scene) { s.down("inactive", "dead", "success", systemd.Killed, 15) })},
			kind:  unhealthy, at: 11, stopped: true},
		{name: "also when systemd kills a process at once that is no child of its own",
			steps: []step{after(0, newUp), after(11, func(s *scene) {
				s.down("failed", "failed", "signal", systemd.Killed, 9)
				s.unit.Restart, s.otherJobs = "on-failure", 1
			})},
			kind: unhealthy, at: 11, stopped: true},
		{name: "also when a command after the stop fails",
			steps: []step{after(0, newUp), after(11, func(s *scene) {
				s.down("failed", "failed", "exit-code", systemd.Exited, 0)
				s.unit.Restart, s.otherJobs = "on-failure", 1
			})},
			kind: unhealthy, at: 11, stopped: true},
		{name: "a kill that nobody's job goes with is none",
			steps: []step{after(0, newUp), after(11, func(s *scene) {
				s.down("failed", "failed", "signal", systemd.Killed, 9)
				s.unit.Restart = "on-failure"
			})},
			kind: unhealthy, at: 11, reason: "was killed by SIGKILL"},
		{name: "nor is one after which systemd never starts the unit again",
			steps: []step{after(0, newUp), after(11, func(s *scene) {
				s.down("failed", "failed", "signal", systemd.Killed, 9)
				s.unit.Restart, s.otherJobs = "no", 1
			})},
			kind: unhealthy, at: 11, reason: "was killed by SIGKILL"},
		{name: "a stop that was called off is none",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.stopJob, s.unit.JobPending = true, true }),
				after(11, func(s *scene) { s.stopJob, s.unit.JobPending = false, false }),
				after(12, func(s *scene) { s.down("failed", "failed", "exit-code", systemd.Exited, 1) })},
			kind: unhealthy, at: 12},
		{name: "a shutdown of the host says nothing",
			steps: []step{after(0, newUp), after(10, func(s *scene) { s.down("inactive", "dead", "success", systemd.Exited, 0); s.stopping = true })},
			kind:  hostStopping, at: 10},

		{name: "an agent that is ready at the window's end holds", ready: "http://localhost/readyz",
			steps: []step{after(0, newUp), after(20, func(s *scene) { s.ready.ok = true })}, kind: held, at: 30},
		{name: "one that is ready a moment later holds", ready: "http://localhost/readyz",
			steps: []step{after(0, newUp), after(33, func(s *scene) { s.ready.ok = true })}, kind: held, at: 33},
		{name: "one that was ready is not", ready: "http://localhost/readyz",
			steps: []step{after(0, newUp), after(5, func(s *scene) { s.ready.ok = true }), after(20, func(s *scene) { s.ready = readiness{detail: "answers 503"} })},
			kind:  unhealthy, at: 35, reason: "http://localhost/readyz answers 503"},
	} {
		t.Run(w.name, func(t *testing.T) {
			w.check(t, func(sample) *judge { return restartJudge(rules{}) })
		})
	}
}

// What a pause between two looks counts for, in a window of 30 s that is a second,
// in one of 4 s a tenth of it.
func TestWhatLiesBetweenTwoLooks(t *testing.T) {
	for _, w := range []struct{ window, pause, counts time.Duration }{
		{30 * time.Second, 200 * time.Millisecond, 200 * time.Millisecond},
		{30 * time.Second, time.Hour, time.Second},
		{4 * time.Second, 200 * time.Millisecond, 200 * time.Millisecond},
		{4 * time.Second, time.Second, 400 * time.Millisecond},
	} {
		j := restartJudge(rules{Settings: settings.Settings{Window: of(w.window)}})
		began := time.Unix(1e9, 0)
		j.lived(began, false)
		if got := j.lived(began.Add(w.pause), false).Sub(began); got != w.counts {
			t.Errorf("%v of a window of %v count as %v; want %v", w.pause, w.window, got, w.counts)
		}
	}
}

// What a person is shown of a watch: the whole window until the agent is up, then less
// and less, and never less than nothing.
func TestWhatIsLeftOfAWatchGoesDown(t *testing.T) {
	j := restartJudge(rules{Settings: settings.Settings{Window: of(10 * time.Second), ReadyURL: "http://x"}, startLimit: time.Minute})
	s := scene{}
	s.now = time.Unix(1000, 0)
	s.unit = systemd.Unit{ActiveState: "activating", SubState: "start", Result: "success"}
	var lefts []time.Duration
	for n := range 130 {
		if n == 10 {
			s.unit.ActiveState, s.unit.SubState = "active", "running"
			s.spawn(7, 1, newExe)
		}
		if v := j.observe(s.sample); v.kind != pending {
			t.Fatalf("after %d looks: %+v", n, v)
		}
		if s.now = s.now.Add(100 * time.Millisecond); n%30 == 9 {
			lefts = append(lefts, j.left().Round(time.Second))
		}
	}
	if want := []time.Duration{10 * time.Second, 7 * time.Second, 4 * time.Second, 1 * time.Second, 0}; !slices.Equal(lefts, want) {
		t.Errorf("left %v; want %v", lefts, want)
	}
}

func of(d time.Duration) duration.Duration { return duration.Duration(d) }
