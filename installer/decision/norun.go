package decision

import (
	"fmt"
	"slices"
	"time"

	"teleport-update/installer/survey"
	"teleport-update/systemd"
)

// overdue is how late a run may be: the timer spreads its runs, and a busy host is slow.
const overdue = 15 * time.Minute

func noRuns(h *facts, f *finder) error {
	o, err := h.Own(h)
	if err != nil {
		return err
	}
	timer, run, now := o.Timer, o.Run, h.Now()
	if timer.LoadState != "loaded" || timer.ActiveState != "active" || o.Others {
		return nil // another check's
	}
	runs := run.ActiveState == "activating" || run.ActiveState == "active" || run.ActiveState == "deactivating"
	since := h.Ticks().Ended
	if run.ExitedAt.After(since) {
		since = run.ExitedAt
	}
	last := "none has ended in this boot"
	if !since.IsZero() {
		last = "the last one ended at " + since.Format(time.RFC3339)
	}
	due, late := notComing(timer, run, since, now)
	switch begun := now.Add(-run.InState); {
	case runs && (run.SubState == "exited" || run.InState > patienceWith(run)):
		f.found(&begun, fmt.Sprintf("systemd has %s as %s (%s) since %s, no other run begins before this one ends, and %s: ", run.Name,
			run.ActiveState, run.SubState, begun.Format(time.RFC3339), last),
			fmt.Sprintf("`systemctl status %s` shows it, `%s` ends it", run.Name, ending(run)))
	case !runs && late:
		f.found(nonZero(due), fmt.Sprintf("no run of the timer begins, and %s: systemd has %s as %s (%s) and %s as %s (%s); ", last,
			timer.Name, timer.ActiveState, timer.SubState, run.Name, run.ActiveState, run.SubState),
			fmt.Sprintf("see `systemctl status %[1]s %[2]s` and `systemctl list-jobs`, then `systemctl restart %[1]s`", timer.Name, run.Name))
	}
	return nil
}

// notComing reports whether no run begins although one was due, and when it was due if that is known.
func notComing(timer, run systemd.Unit, since, now time.Time) (due time.Time, late bool) {
	switch {
	case run.JobPending: // it waits for another unit
		return timer.LastTrigger, !timer.LastTrigger.IsZero() && now.Sub(timer.LastTrigger) > overdue
	case !timer.NextTrigger.IsZero() && now.Sub(timer.NextTrigger) > overdue:
		return timer.NextTrigger, true
	case notBegun(timer, run, since) && now.Sub(timer.Triggered) > beginsWithin:
		return timer.Triggered, true
	}
	return time.Time{}, timer.SubState == "elapsed"
}

// beginsWithin is for clocks that are set meanwhile: systemd makes the job of a run before it says that the timer started one.
const beginsWithin = 5 * time.Second

// notBegun reports whether the timer started a run that did not begin: a unit that it needs failed to start. That leaves no trace in a
// service that ended well before. If the run's conditions skipped it, they say so.
func notBegun(timer, run systemd.Unit, since time.Time) bool {
	at := timer.Triggered
	return at.After(since) && at.After(run.StartedAt) && !run.Skipped.After(at)
}

// longestRun is the limit of a run in its unit: TimeoutStartSec=.
const longestRun = 3 * time.Hour

// patienceWith returns how long a run that is well may be in its state. A drop-in may have given it more time; if it has no limit,
// longestRun counts.
func patienceWith(run systemd.Unit) time.Duration {
	if !slices.Contains([]string{"start", "running", "auto-restart"}, run.SubState) {
		return overdue // a command before it or after it, or its stop
	}
	if run.StartTimeout == systemd.Forever {
		return longestRun + overdue
	}
	return max(longestRun, run.StartTimeout) + overdue
}

// ending returns the command that ends a run. A command that stops a hanging stop would wait.
func ending(run systemd.Unit) string {
	if run.ActiveState == "deactivating" {
		return "systemctl kill --signal=KILL " + run.Name
	}
	return "systemctl stop " + run.Name
}

// tracedWithin is how much later than its trace a run may seem to begin, and how long before the look at the trace it may seem to end: the
// trace is in whole seconds, and the clock may be adjusted meanwhile.
const tracedWithin = 10 * time.Second

// didNothing reports whether the last run ended well and left no trace, as under a drop-in whose command ends without an update. Our run
// leaves a trace even if it does not begin, because another updater is at work or updates are off.
func didNothing(h *facts, o survey.Own) bool {
	run, ticks := o.Run, h.Ticks()
	if h.Paths().Ticks() == "" || ticks.BootID == "" {
		return false // no run leaves a trace
	}
	begun := run.StartedAt
	if len(run.Later) > 0 && o.Timer.Triggered.Before(begun) {
		begun = o.Timer.Triggered // systemd records the start of the last command only
	}
	endedWell := run.Exit == systemd.ExitStatus{Code: systemd.Exited}
	if !endedWell || begun.IsZero() || run.ExitedAt.Before(begun) { // the clock was set while it ran
		return false
	}
	return begun.Sub(ticks.LastTrace()) > tracedWithin && h.TicksRead().Sub(run.ExitedAt) > tracedWithin
}
