package decision

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/executable"
	"teleport-update/internal/layout"
	"teleport-update/systemd"
)

const (
	UnitsLate      Type = "units_late"
	RecoveryBroken Type = "recovery_broken"
	OtherUpdater   Type = "other_updater"
	UpdaterBroken  Type = "updater_broken"
	TimerStopped   Type = "timer_stopped"
	RunNotMade     Type = "run_not_made"
	NoRuns         Type = "no_runs"
	RunsFail       Type = "runs_fail"
	ClockWrong     Type = "clock_wrong"
)

// runFaults are about the updater itself: its units at boot, its timer and its runs.
func runFaults() []Check {
	return []Check{
		{UnitsLate, Fault, NeedsAttention, "units at boot", "the folder of the agent's unit, or of a drop-in of it, or a file that a drop-in " +
			"links to, is not mounted yet when systemd reads its units at boot: there will be no agent, or one with other settings",
			settled | active | deep, unitsLate},
		{RecoveryBroken, Fault, NeedsAttention, "recovery", "the recovery at boot, which repairs what a power cut left, cannot do its work",
			settled | active | partly, recoveryBroken},
		{OtherUpdater, Fault, NeedsAttention, "other updaters", "another updater that manages the same agent came to the host: this one " +
			"changes no version while it is there", settled | active, otherUpdater},
		{UpdaterBroken, Fault, NeedsAttention, "updater's units", "the updater's own units are not as they should be",
			settled | enabled | active, updaterBroken},
		{TimerStopped, Fault, NeedsAttention, "timer", "the updater's timer is stopped, failed or missing: no run starts by itself",
			settled | enabled | active, timerStopped},
		{RunNotMade, Fault, Failing, "runs", "the last run of the timer could not be started, was ended from outside, or did nothing",
			enabled, runNotMade},
		{NoRuns, Fault, Failing, "runs", "no run of the timer has begun although one was due, or the last one does not end", settled | enabled,
			noRuns},
		{RunsFail, Fault, Failing, "runs", "the last runs of the timer failed", enabled, runsFail},
		{ClockWrong, Fault, NeedsAttention, "clock", "a time that the updater recorded is in the future: the clock is behind, or was ahead",
			0, clockWrong},
	}
}

// UnitsElsewhere is an advice to have the units in another folder than the first enable chose.
const UnitsElsewhere = "`teleport-update uninstall`, which leaves the agent as it runs, and then `teleport-update enable` with its " +
	"options put the units into a folder that is there at boot"

// unitsLate looks at mounts, which a run of the timer does not: only people and other programs change them.
func unitsLate(h *facts, f *finder) error {
	if h.blind == nil && h.agent.State == state.AgentUnknown {
		return nil // the mounts of an image build say nothing about the host that boots it
	}
	late, err := h.Late()
	for _, l := range late {
		f.found(nil, fmt.Sprintf("%v: the agent is not started after the next boot. ", l), UnitsElsewhere+h.alsoSwitches())
	}
	if err != nil {
		return err
	}
	dropIns, err := h.LateDropIns(h)
	for _, d := range dropIns {
		f.found(nil, fmt.Sprintf("%s is behind %s, which systemd mounts after it has read its units at boot (`systemctl status %[2]s`): the "+
			"agent is started without this drop-in after the next boot. ", d.File, d.Mount),
			fmt.Sprintf("put its content into %s, on the file system of /, and remove it; then `systemctl daemon-reload`",
				filepath.Join(layout.ConfigDir, filepath.Base(h.Paths().AgentUnit())+".d")))
	}
	return err
}

// recoveryBroken looks at the recovery's unit in systemd, and if a person asks, runs its program.
func recoveryBroken(h *facts, f *finder) error {
	const counts = "a power cut in the middle of an update may leave no agent"
	o, err := h.Own(h)
	if err != nil {
		return err
	}
	if why, err := h.Recovery(h); err != nil {
		return err
	} else if why != nil {
		f.found(nil, fmt.Sprintf("%v, and %s: ", why.What, counts), why.Fix)
		return nil
	}
	if program := o.Recovery.ExecStart; program != "" {
		why, err := executable.Why(program)
		if err != nil {
			return err
		}
		if why != nil {
			f.foundError("the recovery at boot cannot run, and "+counts+": ", why)
			return nil
		}
	}
	if !h.Deep {
		return nil
	}
	// The check of the updater's units reports a file that is missing or changed, with the command that puts it back first.
	if len(o.Problems) == 0 && h.Unread(o.Recovery) {
		f.found(nil, fmt.Sprintf("systemd has an older text of %s than the one on disk, so it cannot be told what the next boot starts: ",
			o.Recovery.Name), "`systemctl daemon-reload` has it read the files")
	}
	if why, err := h.RecoveryNeeds(h); err != nil {
		return err
	} else if why != nil {
		f.found(nil, fmt.Sprintf("%v, and %s: ", why.What, counts), why.Fix)
	}
	if err := h.Rescuer(h); err != nil {
		f.foundError("the recovery at boot cannot run its program, and "+counts+": ", err)
	}
	return nil
}

func otherUpdater(h *facts, f *finder) error {
	if why := h.OtherUpdater(); why != nil {
		f.found(nil, fmt.Sprintf("%v; this updater changes no version while that is so: ", why.What), why.Fix)
	}
	return nil
}

func updaterBroken(h *facts, f *finder) error {
	o, err := h.Own(h)
	for _, p := range o.Problems {
		f.found(nil, p+"; ", "`teleport-update update` repairs it")
	}
	for _, p := range o.Overruled {
		f.found(nil, p, "")
	}
	if u := o.Run; err == nil && !o.Others && len(u.Command) > 0 && !u.Runs("update") && !u.RunsByShell("teleport-update update") {
		// Its words may hold a password. A shell command that updates nothing leaves no trace of a run.
		f.found(nil, fmt.Sprintf("%s starts %s, which updates nothing: ", u.Name, u.Command[0]),
			"look at "+strings.Join(u.OthersDropIns(), ", "))
	}
	if err != nil || o.Others {
		return err
	}
	if why, err := h.RunLimit(h); err != nil {
		return err
	} else if why != nil {
		f.found(nil, fmt.Sprintf("%v: ", why.What), why.Fix)
	}
	if !h.Deep {
		return nil
	}
	why, err := h.RunNeeds(h)
	if why != nil {
		f.found(nil, fmt.Sprintf("%v: ", why.What), why.Fix)
	}
	return err
}

// timer says why no run starts by itself: off is a person's wish, stopped a fault. Both are empty if runs start, if systemd does not run,
// or if that is not known.
func (h *facts) timer() (off, stopped string) {
	o, err := h.Own(h)
	if err != nil || o.Timer.LoadState == "" || o.Others {
		return "", ""
	}
	return timerOf(h, o.Timer)
}

func timerOf(ctx context.Context, u systemd.Unit) (off, stopped string) {
	const stops = "no run starts by itself"
	starts := fmt.Sprintf("`systemctl enable --now %s` starts it", u.Name)
	if u.ActiveState != "active" {
		if unmet := u.Ties.Unmet(ctx); len(unmet) > 0 { // systemd would skip the start
			starts = fmt.Sprintf("remove %s, which does not hold (`systemctl cat %s` shows where that is set), then %s", unmet[0], u.Name, starts)
		}
	}
	switch {
	case u.LoadState == "masked":
		return fmt.Sprintf("the updater's timer is masked, and %s: `%s`, then `systemctl enable --now %s`", stops, systemd.Unmask(u.Name),
			u.Name), ""
	case u.LoadState == "not-found":
		return "", fmt.Sprintf("the updater's timer is missing, and %s: `teleport-update update` puts it back", stops)
	case u.LoadState != "loaded":
		return "", fmt.Sprintf("systemd has the updater's timer as %s, and %s: %s", u.LoadState, stops, host.MendOwn(u))
	case len(u.Triggers) > 0 && !slices.Contains(u.Triggers, strings.TrimSuffix(u.Name, ".timer")+".service"):
		return "", fmt.Sprintf("the updater's timer starts %s instead of a run, and %s: see what its drop-ins say, `systemctl cat %s`",
			strings.Join(u.Triggers, ", "), stops, u.Name)
	case u.ActiveState == "failed":
		return "", fmt.Sprintf("the updater's timer is stopped, because it failed (%s), and %s: `systemctl restart %s`", u.Result, stops, u.Name)
	case u.ActiveState != "active" && u.UnitFileState == "disabled":
		return fmt.Sprintf("the updater's timer is disabled, and %s: %s", stops, starts), ""
	case u.ActiveState != "active":
		return "", fmt.Sprintf("the updater's timer is stopped, and %s: %s", stops, starts)
	case slices.Contains([]string{"disabled", "enabled-runtime", "linked", "linked-runtime"}, u.UnitFileState):
		return fmt.Sprintf("the updater's timer is disabled, and no run starts by itself after the next boot: `systemctl enable %s`", u.Name), ""
	}
	return "", ""
}

func timerStopped(h *facts, f *finder) error {
	if _, err := h.Own(h); err != nil {
		return err
	}
	if _, stopped := h.timer(); stopped != "" {
		f.foundStopped(stopped)
	}
	return nil
}

// foundStopped is found for a text of timerOf: the advice follows the first colon.
func (f *finder) foundStopped(text string) {
	what, advice, _ := strings.Cut(text, ": ")
	f.found(nil, what+": ", advice)
}

// recorded reports whether the last run recorded how it ended: then status prints that record, and not systemd's. A run whose program was
// not started, or ended well, has recorded nothing about a failure.
func recorded(run systemd.Unit, t state.Ticks) bool {
	_, notStarted := systemd.NotStarted(run.Exit.Status)
	began := run.Exit.Code == systemd.Exited && run.Exit.Status != 0 && !notStarted
	return began && !t.Ended.Before(run.StartedAt.Truncate(time.Second))
}

func runNotMade(h *facts, f *finder) error {
	o, err := h.Own(h)
	if err != nil {
		return err
	}
	run, ticks := o.Run, h.Ticks()
	runs := run.ActiveState == "activating" || run.ActiveState == "active"
	well := run.Result == "" || run.Result == "success"
	if run.LoadState == "" || runs || o.Others {
		return nil
	}
	at := run.Since
	if run.ExitedAt.After(at) {
		at = run.ExitedAt
	}
	see := fmt.Sprintf("see `systemctl status %s` and `journalctl -u %[1]s`", run.Name)
	switch {
	case run.LoadState != "loaded":
		f.found(nil, fmt.Sprintf("no run of the timer can start: systemd has %s as %s: ", run.Name, run.LoadState), host.MendOwn(run))
	case !well && !(recorded(run, ticks) && run.Result == "exit-code") && ticks.Good.Before(at):
		f.found(nonZero(at), fmt.Sprintf("the last run of the timer did not end well: Result=%s, %s; ", run.Result, run.Exit.Quoted()), see)
	case well && run.Skipped.After(ticks.Good) && run.Skipped.After(run.ExitedAt):
		f.found(nonZero(run.Skipped), "systemd skipped the last run of the timer: ConditionResult=no or AssertResult=no; ", see)
	case well && didNothing(h, o):
		f.found(nonZero(run.ExitedAt), "the last run of the timer did nothing: Result=success, and the run left nothing in "+
			h.Paths().Ticks()+"; ", see)
	}
	return nil
}

func nonZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func runsFail(h *facts, f *finder) error {
	t := h.Ticks()
	if t.Failing == nil || t.Unreachable != nil && h.Answered {
		return nil // find answers again
	}
	n := t.Failing.Count
	what := fmt.Sprintf("the last %d %s of the timer failed: %s", n, Plural(n, "run", "runs"), t.Failing.Error)
	advice := "remove the cause, then `teleport-update update`"
	if t.Failing.OfFind {
		advice = h.repairFind()
	}
	if next := t.Failing.NextAttempt; !next.IsZero() {
		what += "; the next attempt is at " + next.Format(time.RFC3339)
	}
	f.found(&t.Failing.First, what+"; ", advice)
	return nil
}

// repairFind says on which machine find is to be repaired before the next attempt.
func (h *facts) repairFind() string {
	return fmt.Sprintf("have find on %s answer this host, then `teleport-update update`", cmp.Or(h.c.Spec.Proxy, "the proxy"))
}
