package health

import (
	"fmt"
	"strings"
	"time"

	"teleport-update/health/settings"
	"teleport-update/systemd"
)

// sample holds the observations of one moment. The judge decides from samples alone, so every rule can be tested without a service manager.
type sample struct {
	now      time.Time
	took     time.Duration // the observations may be as old as this
	stopping bool          // the host shuts down
	unit     systemd.Unit
	stopJob  bool // the unit's pending job is one that stops it
	// otherJobs counts the jobs on the unit that somebody else asked for since
	// sampling began. A process that ends by itself needs no job.
	otherJobs int
	main      *process  // the unit's main process, nil if there is none
	group     []process // all processes of the unit; only in a watch of a reload
	sighted   []process // of the new version, seen since sampling began; some may be gone
	pidFile   int       // the PID in the PID file, 0 if there is no PID file

	reload reloadJob
	ready  readiness
}

type reloadJob int

const (
	reloadDone    reloadJob = iota // or no reload was asked for
	reloadPending                  // the limit for the new process does not run yet
	reloadFailed
)

// oldServes reports whether the unit's main process belongs to another version.
func (s sample) oldServes() bool { return s.main != nil && !s.main.inside }

type verdictKind int

const (
	pending      verdictKind = iota // look again
	held                            // through the window, nothing went wrong
	unhealthy                       // the new version failed
	needsRestart                    // the new version has not been tried: restart, and judge that
	hostStopping                    // the version can no longer be judged
)

type verdict struct {
	kind      verdictKind
	reason    string // of unhealthy and needsRestart, completes "the agent …"
	oldServes bool
	stopped   bool
	// neverBegan: systemd began no process of it.
	neverBegan bool
}

// rules are the rules of one watch.
type rules struct {
	// a person's settings, with defaults filled in, and the ready URL as messages name it
	settings.Settings
	reloadLimit time.Duration // for a process of the new version to take over
	startLimit  time.Duration // for a start in progress
}

const (
	// settleLimit: a main process may be systemd's, or a unit's shell around the agent, before it executes the agent; and the death of a
	// process shows in /proc before systemd has drawn its conclusions.
	settleLimit = 5 * time.Second
	// burialLimit: a new process may be a stepping stone that starts the real one and ends. Once it has taken over it is no stepping stone.
	burialLimit = 2 * time.Second
	readyGrace  = 5 * time.Second
	// lookLimit and lookShare: time between two looks counts for no more than this, nor for more than this part of the window. On a host that
	// stood still, as a virtual machine does while it is saved or moved, no agent ran that could have failed, or started; and no window ends
	// after only a few looks. A look takes milliseconds: only a very busy host gets a longer watch.
	lookLimit = time.Second
	lookShare = 10
	// stillLimit is how long somebody may keep the agent from running, in all, before the watch gives up: a process that
	// is frozen or stopped shows nothing about its version.
	stillLimit = 5 * time.Minute
	// watchLimit is how often the watch may begin again because somebody else
	// restarted or reloaded the agent.
	watchLimit = 2
)

// judge decides whether an agent is healthy, one sample after the other. It watches
// one process, the subject: after a restart the main process, after a reload the
// one that takes over from the old one.
type judge struct {
	rules
	afterReload bool
	invocation  string // of the run that is watched, "" until known
	baseline    uint32 // restarts by systemd before the new version
	old         identity

	looked     time.Time     // last, by the clock
	lost       time.Duration // time that does not count; it is taken out of all other times
	still      bool          // at the last look somebody kept the agent from running
	stood      time.Duration // time for which somebody kept the agent still, in all
	begun      time.Time     // of the watch, of a repeated watch, or of the reload's end
	subject    identity      // zero until seen
	tookOver   bool          // the PID file or systemd names the subject
	since      time.Time     // the subject is in order since
	gone       time.Time     // the subject is gone since
	waiting    time.Time     // the unit is between states since
	mismatched time.Time     // the main process is a wrong one since
	restarts   int
	stopSeen   bool
	jobsSeen   int // others' jobs that have had their effect
	jobsLast   int // others' jobs that the sample before knew of
}

// restartJudge judges the run after a restart. systemd counts its own restarts from 0 again when somebody starts a unit.
func restartJudge(r rules) *judge {
	return &judge{rules: r}
}

// reloadJudge judges a reload; before is the unit before it.
func reloadJudge(r rules, before sample) *judge {
	j := &judge{rules: r, afterReload: true, invocation: before.unit.InvocationID, baseline: before.unit.NRestarts}
	if before.main != nil {
		j.old = before.main.identity
	}
	return j
}

// keptStill reports whether somebody keeps the agent from running: its unit is frozen, or its process is stopped by SIGSTOP. Other
// processes of the version are sessions, whose users may stop them.
func (j *judge) keptStill(s sample) bool {
	halted := func(p *process) bool { return p != nil && p.inside && p.halted }
	return s.unit.Frozen || halted(s.main) || halted(member(s.group, j.subject.pid)) || halted(member(s.group, s.pidFile))
}

func (j *judge) observe(s sample) verdict {
	if s.stopping {
		return verdict{kind: hostStopping}
	}
	s.now = j.lived(s.now, j.keptStill(s))
	if j.stood > stillLimit {
		return failed(fmt.Sprintf("was frozen, or stopped by SIGSTOP, for %v: nobody can tell whether it works", stillLimit))
	}
	if j.begun.IsZero() || s.reload == reloadPending {
		j.begun = s.now
	}
	v := j.observeRun(s)
	if v.kind == pending {
		v = j.observeState(s)
	}
	j.jobsLast = s.otherJobs
	v.neverBegan = v.kind == unhealthy && j.subject == (identity{}) && s.unit.NeverBegan()
	if v.kind == unhealthy && !v.stopped && j.afterReload && j.oldDied(s) {
		v.kind = needsRestart
	}
	if v.kind != pending || !s.unit.Running() {
		return v
	}
	if j.afterReload {
		return j.observeReload(s)
	}
	return j.observeMain(s)
}

// lived returns the time without the time that was lost between looks. The time before and after a look does not count if somebody then
// kept the agent from running.
func (j *judge) lived(now time.Time, still bool) time.Time {
	limit := min(lookLimit, j.Window.Std()/lookShare)
	gap := now.Sub(j.looked)
	switch {
	case j.looked.IsZero():
	case still || j.still:
		j.lost += gap
		j.stood += min(gap, limit)
	case gap > limit:
		j.lost += gap - limit
	}
	j.looked, j.still = now, still
	return now.Add(-j.lost)
}

// settled reports whether it is clear which process to watch.
func (j *judge) settled() bool {
	now := j.looked.Add(-j.lost)
	return j.subject != (identity{}) && (j.tookOver || !j.afterReload || now.Sub(j.begun) > j.reloadLimit)
}

// left returns the rest of the window.
func (j *judge) left() time.Duration {
	if j.since.IsZero() {
		return j.Window.Std()
	}
	return max(j.Window.Std()-j.looked.Add(-j.lost).Sub(j.since), 0)
}

// oldDied reports whether the old version brought the unit down: it ended before there was a process of the new version, or while that
// process was starting, which systemd ends then too.
func (j *judge) oldDied(s sample) bool {
	switch {
	case j.subject == (identity{}):
		return true
	case j.tookOver || s.pidFile == j.subject.pid:
		return false
	}
	// Once systemd has started the unit again, nothing says which process died.
	return s.unit.Running() || int(s.unit.ExitPID) == j.old.pid
}

// observeRun notices restarts: systemd's own, which are a crash, and restarts that somebody asked for, which are not.
func (j *judge) observeRun(s sample) verdict {
	u := s.unit
	switch {
	case u.InvocationID == "":
		return verdict{}
	case j.invocation == "":
		j.invocation = u.InvocationID
	case u.InvocationID != j.invocation && u.NRestarts <= j.baseline:
		// Started by hand: the count began at 0, and the new version runs.
		j.baseline, j.invocation, j.afterReload = 0, u.InvocationID, false
		if v := j.restartWatch(s); v.kind != pending {
			return v
		}
	}
	if u.NRestarts > j.baseline {
		return failed("died and was restarted by systemd")
	}
	return verdict{}
}

// observeState decides on the unit's state, as long as it is not running.
func (j *judge) observeState(s sample) verdict {
	u := s.unit
	if u.Running() {
		j.waiting = time.Time{}
		j.stopSeen = s.stopJob
		if !u.JobPending {
			// Jobs from before this state was read are over, and were no stop. Jobs that this sample itself has heard of do not count here: one may
			// be a stop.
			j.jobsSeen = max(j.jobsSeen, j.jobsLast)
		}
		if u.Result != "success" {
			return failed(fmt.Sprintf("runs, but systemd reports %q", u.Result))
		}
		return verdict{}
	}
	j.stopSeen = j.stopSeen || s.stopJob
	switch {
	case strings.Contains(u.SubState, "auto-restart"):
		return failed(u.Ended() + ", and systemd is about to restart it")
	case u.JobPending, u.ActiveState == "activating":
		// A start takes its time, and so does a stop or restart by somebody else.
	case u.ActiveState == "active":
		return failed(fmt.Sprintf("runs no process (%s/%s)", u.ActiveState, u.SubState))
	case u.WasSkipped():
		return failed("was not started, for a condition or an assertion of its unit does not hold")
	case j.stopSeen || u.Result == "success" && u.Exit.Terminated(),
		s.otherJobs > j.jobsSeen && (u.Result == "success" || u.FailedByAStop()):
		return verdict{kind: unhealthy, stopped: true, reason: "was stopped by somebody else while it was being watched"}
	case u.ActiveState == "failed" || u.ActiveState == "deactivating" || u.ActiveState == "inactive":
		reason := u.Ended()
		if u.Result != "success" && u.Result != "exit-code" && u.Result != "signal" {
			reason += fmt.Sprintf(" (systemd reports %q)", u.Result)
		}
		return failed(reason)
	}
	if j.waiting.IsZero() {
		j.waiting = s.now
	}
	if s.now.Sub(j.waiting) > j.startLimit {
		return failed(fmt.Sprintf("is still %s (%s) after %v", u.ActiveState, u.SubState, j.startLimit))
	}
	return verdict{}
}

// observeMain watches the main process of a unit that runs.
func (j *judge) observeMain(s sample) verdict {
	switch {
	case s.main == nil:
		return j.observeMismatch(s, "has no main process")
	case !s.main.inside && s.main.identity == j.subject:
		return failed("went over to executing " + s.main.exe)
	case !s.main.inside:
		return j.observeMismatch(s, "executes "+s.main.exe+", which is not the new version")
	}
	j.mismatched = time.Time{}
	if j.subject == (identity{}) {
		j.subject = s.main.identity
	} else if s.main.identity != j.subject {
		// Same run, another main process: somebody else reloaded the agent.
		if v := j.restartWatch(s); v.kind != pending {
			return v
		}
		j.subject = s.main.identity
	}
	return j.observeWindow(s)
}

// observeMismatch tolerates for a moment a main process that is right at the start or the end of a process.
func (j *judge) observeMismatch(s sample, reason string) verdict {
	if j.mismatched.IsZero() {
		j.mismatched = s.now
	}
	if s.now.Sub(j.mismatched) > settleLimit {
		return failed(reason)
	}
	return verdict{}
}

// restartWatch begins to watch again, with the process that runs now.
func (j *judge) restartWatch(s sample) verdict {
	j.restarts++
	j.begun, j.jobsSeen = s.now, s.otherJobs
	j.subject, j.tookOver, j.stopSeen = identity{}, false, false
	j.since, j.gone, j.waiting, j.mismatched = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if j.restarts > watchLimit {
		return failed(fmt.Sprintf("was restarted or reloaded %d times by somebody else, too often to be judged", j.restarts))
	}
	return verdict{}
}

// observeWindow is called while all is well.
func (j *judge) observeWindow(s sample) verdict {
	if j.since.IsZero() {
		j.since = s.now
	}
	age := s.now.Sub(j.since) - s.took
	switch {
	case age < j.Window.Std():
		return verdict{}
	case j.ReadyURL == "" || s.ready.ok:
		return verdict{kind: held}
	case age < j.Window.Std()+readyGrace:
		return verdict{}
	}
	return failed(fmt.Sprintf("is not ready: %s %s", j.ReadyURL, s.ready.detail))
}

func failed(reason string) verdict {
	return verdict{kind: unhealthy, reason: reason}
}
