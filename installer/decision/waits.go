package decision

import (
	"errors"
	"fmt"
	"time"

	"teleport-update/installer/state"
)

const (
	UpdatesDisabled Type = "updates_disabled"
	HostPinned      Type = "pinned"
	HostHeld        Type = "held"
	VersionBacksOff Type = "backing_off"
	RunFailed       Type = "run_failed"
	FindUnreachable Type = "find_unreachable"
	AgentNotStarted Type = "agent_not_started"
	UpdateWaits     Type = "update_waits"
	TargetUnknown   Type = "target_unknown"
	Unproven        Type = "unproven"
	NoSystemd       Type = "no_systemd"
	TimerOff        Type = "timer_off"
)

// waits are about settings of a person, and about events that the host waits for.
func waits() []Check {
	return []Check{
		{UpdatesDisabled, Setting, Disabled, "updates", "updates are off: somebody disabled them, or nobody has enabled them", readable,
			updatesDisabled},
		{HostPinned, Setting, Pinned, "pinned", "a person pinned the host to a version", enabled, hostPinned},
		{HostHeld, Setting, Held, "held", "a rollback by hand holds the host: it does not switch to the version that the cluster wants", follows,
			hostHeld},
		{VersionBacksOff, Busy, BackingOff, "target", "the version that the cluster wants failed here and waits for its next attempt", follows,
			versionBacksOff},
		{RunFailed, Fault, Failing, "runs", "the last run of the timer ended with an error", enabled, runFailed},
		{FindUnreachable, Busy, Waiting, "find", "the proxy's find endpoint, which names the version, cannot be reached, for less " +
			"than an hour so far", follows, findUnreachable},
		{AgentNotStarted, Busy, Waiting, "agent", "the agent does not run, and nothing starts it: it was not started yet, or a " +
			"person stopped, disabled or masked it", settled | active, agentNotStarted},
		{AgentStarting, Busy, Waiting, "agent", "the agent does not serve yet: systemd is about to start it, or is stopping it",
			settled | active, agentStarting},
		{UpdateWaits, Busy, Waiting, "target", "the cluster wants another version; a run of the timer switches to it once it is " +
			"this host's turn", follows, updateWaits},
		{TargetUnknown, Busy, Waiting, "target", "the cluster has not named a version yet", follows, targetUnknown},
		{Unproven, Busy, Waiting, "proof", "the agent was not running when the host switched to the version; a run of the timer " +
			"proves the version once the agent was healthy for the health window", active, unproven},
		{NoSystemd, Busy, Waiting, "systemd", "systemd does not run here: agent and timer start once it does", settled | active, noSystemd},
		{TimerOff, Setting, Idle, "timer", "a person masked or disabled the updater's timer: the host follows the cluster only by `update`",
			settled | enabled, timerOff},
	}
}

func updatesDisabled(h *facts, f *finder) error {
	if !h.c.Spec.Enabled {
		f.found(nil, "updates are disabled; ", "`teleport-update enable` turns them on"+h.alsoSwitches())
	}
	return nil
}

func hostPinned(h *facts, f *finder) error {
	if h.c.Spec.Pinned {
		f.found(nil, fmt.Sprintf("pinned to %s; ", h.c.Spec.ActiveVersion), "`teleport-update unpin` lets it follow the cluster again")
	}
	return nil
}

func hostHeld(h *facts, f *finder) error {
	if held := h.c.Status.Held; h.aim() == HostHeld {
		wish := held.Version
		if h.Desired.Version != "" {
			wish = h.Desired.Version
		}
		f.found(&held.Since, fmt.Sprintf("the host is held since a rollback by hand, and does not switch to version %s; ", wish),
			"`teleport-update update --now` releases it")
	}
	return nil
}

func versionBacksOff(h *facts, f *finder) error {
	if h.aim() != VersionBacksOff {
		return nil
	}
	var since *time.Time
	if u := h.c.Status.LastUpdate; u != nil {
		since = &u.Time
	}
	failed := h.c.Status.FailureOf(h.Desired)
	what := fmt.Sprintf("version %s failed %d %s", failed.Version, failed.Attempts, Plural(failed.Attempts, "time", "times"))
	if failed.Error != "" {
		what += ": " + failed.Error
	}
	f.found(since, fmt.Sprintf("%s; next attempt at %s; ", what, failed.NextAttempt.Format(time.RFC3339)),
		"`teleport-update update --now` tries at once")
	return nil
}

// runFailed is about a run whose error no other check reports.
func runFailed(h *facts, f *finder) error {
	t := h.Ticks()
	told := func(c Condition) bool {
		return c.Severity == Fault || c.Type == VersionBacksOff || c.Type == TransactionRunning
	}
	if t.Error == "" || t.Failing != nil || t.Unreachable != nil {
		return nil
	}
	for _, c := range f.all {
		if told(c) {
			return nil
		}
	}
	at := ""
	if !t.Ended.IsZero() {
		at = ", at " + t.Ended.Format(time.RFC3339) + ","
	}
	f.found(nonZero(t.Ended), fmt.Sprintf("the last run of the timer%s failed: %s", at, t.Error), "")
	return nil
}

func findUnreachable(h *facts, f *finder) error {
	t := h.Ticks()
	if u := t.Unreachable; u != nil && t.Failing == nil && !h.Answered {
		f.foundWith(&u.Since, "the proxy's find endpoint cannot be reached: "+u.Error, h.repairFind(),
			fmt.Sprintf("the proxy's find endpoint cannot be reached since %s: %s", u.Since.Format(time.RFC3339), u.Error))
	}
	return nil
}

func agentNotStarted(h *facts, f *finder) error {
	a := h.agent
	if h.blind != nil || a.State != state.AgentStopped || h.crashing() {
		return nil // another check reports that
	}
	since := nonZero(a.Since)
	if a.LoadState == "masked" {
		mask, unmask := split(h.masked())
		f.found(since, "the agent does not run, and a person keeps it from starting: "+mask+": ", h.adviseAfter(unmask, behindMask,
			"`systemctl enable --now teleport`"))
		return nil
	}
	if a.UnitFileState == "enabled" {
		return nil // another check reports that
	}
	configured, err := h.Configured()
	switch {
	case err != nil:
		f.found(since, "the agent does not run, and nothing starts it: ", "remove what keeps root from reading the agent's configuration")
		return errors.New(wayOut(err))
	case !configured:
		f.found(since, "the agent does not run, and nothing starts it: ", h.adviseAfter("write its configuration", onceConfigured,
			"`systemctl enable --now teleport`"))
	case h.c.Status.Unproven:
		f.found(since, "the agent does not run, and nothing starts it: ", h.advise("`systemctl enable --now teleport`"+h.untried()))
	default:
		f.found(since,
			"the agent does not run, and is not enabled at boot, as after a person stopped and disabled it, or on a new system disk: ",
			h.advise("`systemctl enable --now teleport` starts it"))
	}
	return nil
}

func updateWaits(h *facts, f *finder) error {
	if h.aim() != UpdateWaits {
		return nil
	}
	if again, waits := h.c.Status.AgainAt(h.Desired, h.Now()); waits {
		f.found(&h.c.Status.Returned.Since, Returned(h.Desired, again), "")
		return nil
	}
	if h.Jitter != nil {
		f.found(nil, fmt.Sprintf("the cluster wants %s; this host switches at %s, a random time, so that not all hosts switch at "+
			"once; ", h.Desired.Short(), h.Jitter.Format(time.RFC3339)), "`teleport-update update --now` switches now")
		return nil
	}
	timer := "a run of the timer switches to it once it is this host's turn"
	if f.has(OtherUpdater) {
		timer = "no run of the timer switches to it while another updater is here"
	} else if off, stopped := h.timer(); off+stopped != "" {
		timer = "no run of the timer comes, `teleport-update update` switches to it once it is this host's turn"
	} else if f.has(RunNotMade, NoRuns) {
		timer = "once runs of the timer work again, or by `teleport-update update`, this host switches to it when it is its turn"
	}
	f.found(nil, fmt.Sprintf("the cluster wants %s; %s", h.Desired.Short(), timer), "")
	return nil
}

func targetUnknown(h *facts, f *finder) error {
	if h.aim() != TargetUnknown {
		return nil
	}
	why := h.AskError
	if why == "" {
		why = "it has not been asked yet"
	}
	const what = "the version that the cluster wants is not known"
	f.found(nil, what+": "+why, "")
	return nil
}

func unproven(h *facts, f *finder) error {
	if !h.c.Status.Unproven {
		return nil
	}
	var since *time.Time
	if u := h.c.Status.LastUpdate; u != nil {
		since = &u.Time
	}
	f.found(since, fmt.Sprintf("version %s is not proven yet: the agent was not running when the host switched to it; a run of "+
		"the timer proves it once the agent was healthy for the health window", h.c.Spec.ActiveVersion), "")
	return nil
}

func noSystemd(h *facts, f *finder) error {
	if h.blind == nil && h.agent.State == state.AgentUnknown {
		f.found(nil, "systemd does not run here: nobody can say how the agent is, and agent and timer start once it does", "")
	}
	return nil
}

func timerOff(h *facts, f *finder) error {
	if off, _ := h.timer(); off != "" {
		f.foundStopped(off)
	}
	return nil
}

// aim returns the one type that says why the version that find wants is not active; empty if it is active.
func (h *facts) aim() Type {
	held, failed := h.c.Status.Held, h.c.Status.FailureOf(h.Desired)
	known := h.Desired.Version != ""
	heldBack := held != nil
	if known {
		heldBack = h.Desired != h.c.Active() && held.Holds(h.Desired)
	}
	switch {
	case heldBack:
		return HostHeld
	case known && failed.BackingOff(h.Desired, h.Now()):
		return VersionBacksOff
	case h.c.Status.Refused.Is(h.Desired) && h.Policy.Refusal(h.c.Status.Refused) != "":
		return TargetRefused
	case !known && h.CheckedAt != nil:
		return TargetNone
	case !known:
		return TargetUnknown
	case h.Desired != h.c.Active():
		return UpdateWaits
	}
	return ""
}
