package decision

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

func agentUnstable(h *host, f *finder) error {
	if h.blind != nil {
		return h.blind
	}
	u := h.Ticks().Unstable
	if u == nil || u.Release != h.c.Active() || h.agent.State == state.AgentUnknown {
		return nil
	}
	if why := h.Policy.Back; why != "" {
		f.found(&u.Since, Crashes(u, version.Release{})+"; the timer does not go back: "+why)
		return nil
	}
	f.found(&u.Since, Crashes(u, PreviousToGoBackTo(h.Survey, h.c)))
	return nil
}

// Crashes says of a version that crashes again and again what can be done.
func Crashes(u *state.Unstable, previous version.Release) string {
	return fmt.Sprintf("the agent of version %s crashes again and again since %s, found by %d %s of the timer: %s",
		u.Short(), u.Since.Format(time.RFC3339), u.Count, Plural(u.Count, "run", "runs"), backTo(previous))
}

// backTo advises a rollback if there is a version to go back to, and says where to look.
func backTo(previous version.Release) string {
	const why = "`journalctl -u teleport` says why"
	if previous.Version != "" {
		return fmt.Sprintf("`teleport-update rollback` goes back to version %s, %s", previous.Version, why)
	}
	return why
}

// crashing reports whether another check tells of the agent.
func (h *host) crashing() bool {
	u := h.Ticks().Unstable
	return u != nil && u.Release == h.c.Active()
}

func agentDown(h *host, f *finder) error {
	if h.blind != nil {
		return h.blind
	}
	a := h.agent
	enabled := a.UnitFileState == "enabled"
	switch {
	case h.crashing():
	case a.State == state.AgentFailing:
		f.found(nonZero(a.Since), fmt.Sprintf("the agent of version %s fails (%s, %s): %s", h.c.Active().Short(), orUnknown(a.ActiveState),
			orUnknown(a.SubState), backTo(PreviousToGoBackTo(h.Survey, h.c))))
	case a.State == state.AgentStopped && enabled && a.LoadState != "masked":
		f.found(nonZero(a.Since), "the agent is enabled at boot and does not run: "+h.advise("`systemctl start teleport`"+cmp.Or(h.untried(),
			" starts it")))
	}
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "?"
	}
	return s
}

// advise is an advice to start the agent, or why that would do harm.
func (h *host) advise(start string) string {
	if why := h.keepsFromStarting(); why != "" {
		return "do not start it before this is put right: " + why
	}
	return start
}

// untried says what comes of the first start of a version that no agent has run here yet; empty for
// a proven one, and for one with nothing to go back to.
func (h *host) untried() string {
	previous := PreviousToGoBackTo(h.Survey, h.c)
	if !h.c.Status.Unproven || previous.Version == "" {
		return ""
	}
	then := fmt.Sprintf("the next run of the timer goes back to version %s if it fails", previous.Short())
	if !h.c.Spec.Enabled || h.c.Spec.Pinned {
		then = fmt.Sprintf("nothing but `teleport-update rollback` goes back to version %s if it fails", previous.Short())
	}
	return fmt.Sprintf(" starts version %s, which has not run on this host yet: %s", h.c.Active().Short(), then)
}

// keepsFromStarting says why a start of the agent by its unit would fail, or would start
// something else; empty where nothing speaks against it.
func (h *host) keepsFromStarting() string {
	v, err := h.Version()
	if err != nil {
		return fmt.Sprintf("the active version could not be looked at: %v", err)
	}
	unmet := h.agent.Ties.Unmet(h)
	switch a := h.agent; {
	case !v.Whole:
		return fmt.Sprintf("version %s is not whole on disk", h.c.Active().Short())
	case v.Unusable != nil:
		return v.Unusable.Error()
	case a.LoadState == "masked":
		return h.masked()
	case a.Ties.RefusesStart:
		return "systemd refuses to start its unit when asked (RefuseManualStart=)"
	case len(unmet) > 0:
		return fmt.Sprintf("systemd would not start it, for %v does not hold now", unmet[0])
	}
	if why, err := h.Starts(h); err != nil || why != nil {
		return fmt.Sprint(firstOf(err, why))
	}
	if why := h.Fits(h); why != nil {
		return why.Error()
	}
	return ""
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (h *host) masked() string {
	at := ""
	if h.agent.Mask != "" {
		at = " by " + h.agent.Mask
	}
	return fmt.Sprintf("%s is masked%s: `systemctl unmask %s`", h.Paths().AgentUnit(), at, h.Paths().AgentUnit())
}

func agentNotStarted(h *host, f *finder) error {
	a := h.agent
	if h.blind != nil || a.State != state.AgentStopped || h.crashing() {
		return nil // another check tells of that
	}
	since := nonZero(a.Since)
	switch {
	case a.LoadState == "masked":
		f.found(since, "the agent does not run, and a person keeps it from starting: "+h.masked()+", then `systemctl enable --now teleport`")
	case a.UnitFileState == "enabled":
	case !a.Configured:
		f.found(since, "the agent does not run, and nothing starts it: write its configuration, then `systemctl enable --now teleport`")
	case h.c.Status.Unproven:
		f.found(since, "the agent does not run, and nothing starts it: "+h.advise("`systemctl enable --now teleport`"+h.untried()))
	default:
		f.found(since,
			"the agent does not run, because a person stopped it, and is not enabled at boot: "+h.advise("`systemctl enable --now "+
				"teleport` starts it"))
	}
	return nil
}

func agentNotEnabled(h *host, f *finder) error {
	if h.blind == nil && h.agent.State == state.AgentRunning && h.agent.UnitFileState == "disabled" {
		f.found(nil, "the agent runs and is not enabled: the next boot does not start it. `systemctl enable teleport`")
	}
	return nil
}

func agentOtherVersion(h *host, f *finder) error {
	a, linked := h.agent, h.c.Active()
	program := a.Process.Exe
	if h.blind != nil || h.crashing() || a.State != state.AgentRunning {
		return nil
	}
	if a.Hidden != nil {
		return a.Hidden
	}
	if program == "" || a.Is(linked) {
		return nil
	}
	since, what := nonZero(a.Since), "version "+a.Runs.Short()
	if a.Runs.Version == "" {
		what = program + ", which is not a kept version"
	}
	f.found(since, fmt.Sprintf("the agent runs %s, and the links lead to version %s: %s", what, linked.Short(), h.restart(a.Runs)))
	return nil
}

// restart advises to restart an agent that runs another release than the linked one, if the
// linked one may take over its database: a newer one may have changed that.
func (h *host) restart(runs version.Release) string {
	linked := h.c.Active()
	switch {
	case runs.Version == "":
		return fmt.Sprintf("do not restart it before it is known that its database fits version %s: whoever put that program "+
			"there may have put a newer version there", linked.Short())
	case version.Compare(runs.Version, linked.Version) > 0 && h.Kept(runs):
		return fmt.Sprintf("do not restart it: version %s may have changed its database; `teleport-update pin %s` links the version that runs",
			runs.Short(), runs.Version)
	case version.Compare(runs.Version, linked.Version) > 0:
		return fmt.Sprintf("do not restart it: version %s may have changed its database", runs.Short())
	}
	if why := h.keepsFromStarting(); why != "" {
		return "do not restart it before this is put right: " + why
	}
	return "`systemctl restart teleport` starts the linked version"
}

func restartPending(h *host, f *finder) error {
	if p := h.agent.Pending; h.blind == nil && p.Is() {
		f.found(nil, p.Explained())
	}
	return nil
}

func versionBroken(h *host, f *finder) error {
	again := h.command() + " fetches it again"
	v, err := h.Version()
	switch {
	case err != nil:
		return err
	case !v.Whole:
		f.found(nil, fmt.Sprintf("version %s is not whole on disk: %s", h.c.Active().Short(), again))
	case v.Unusable != nil:
		f.found(nil, fmt.Sprintf("the agent could not be started: %v", v.Unusable))
	}
	return nil
}

func linksBroken(h *host, f *finder) error {
	problems, err := h.Links()
	if err != nil || len(problems) == 0 {
		return err
	}
	why, err := h.Pair(h)
	for _, p := range problems {
		switch {
		case err != nil: // nobody knows what helps
			f.found(nil, p)
		case why != nil:
			f.found(nil, p+", and a repair leaves it: "+wayOut(why))
		default:
			f.found(nil, p+": "+h.command()+" puts it back")
		}
	}
	return err
}

// wayOut is a refusal without the words that the command which was refused changed nothing.
func wayOut(why error) string {
	if e, ok := errors.AsType[*failure.Error](why); ok && e.Fix != "" {
		return fmt.Sprintf("%v: %s", e.What, e.Fix)
	}
	return why.Error()
}

// command is what repairs the active version: a host on which updates are off is left alone
// by the other one.
func (h *host) command() string {
	if h.c.Spec.Enabled {
		return "`teleport-update update`"
	}
	return "updates are disabled; `teleport-update enable` turns them on and"
}

func unitOverruled(h *host, f *finder) error {
	if h.blind != nil {
		return h.blind
	}
	unit := h.Paths().AgentUnit()
	switch a := h.agent; {
	case a.State == state.AgentUnknown:
		return nil // there is no systemd
	case a.LoadState == "masked":
		if a.State == state.AgentRunning { // else another check tells of a person's wish
			f.found(nil, "the agent runs, and its next start would fail: "+h.masked())
		}
		return nil
	case a.LoadState != "loaded":
		f.found(nil, fmt.Sprintf("systemd has no unit %s that it can start (%s): the next start fails; `systemctl daemon-reload` "+
			"has it look again in %s", unit, orUnknown(a.LoadState), h.Paths().UnitDir))
		return nil
	case a.NeedDaemonReload:
		f.found(nil, fmt.Sprintf("systemd has an older text of %s than the one on disk: `systemctl daemon-reload` has it read the files", unit))
	}
	why, err := h.Starts(h)
	problems, _ := h.Links()
	if ours := h.agent.FragmentPath == h.Paths().Unit(); why != nil && (!ours || len(problems) == 0) {
		f.found(nil, why.Error()) // else it follows from the links
	}
	return err
}

func programsClosed(h *host, f *finder) error {
	if h.Closed == nil {
		return nil
	}
	text, err := h.Closed(h)
	if text != "" {
		f.found(nil, text)
	}
	return err
}

// companionsOld tells of services that the updater never restarts: they may hold what their users need.
func companionsOld(h *host, f *finder) error {
	companions, err := h.Companions()
	if err != nil {
		return err
	}
	var old, units []string
	for _, c := range companions {
		if a := h.c.Active(); c.Runs.Version == a.Version && (c.Runs.Edition == a.Edition || c.Runs.Edition == "") {
			continue
		}
		old = append(old, fmt.Sprintf("%s runs version %s (PID %d)", c.Unit, c.Runs.Short(), c.PID))
		if !slices.Contains(units, c.Unit) {
			units = append(units, c.Unit)
		}
	}
	if len(old) > 0 {
		f.found(nil, fmt.Sprintf("version %s is active, and %s: `systemctl restart %s`", h.c.Active().Short(), strings.Join(old, ", "),
			strings.Join(units, " ")))
	}
	return nil
}

func unproven(h *host, f *finder) error {
	if !h.c.Status.Unproven {
		return nil
	}
	var since *time.Time
	if u := h.c.Status.LastUpdate; u != nil {
		since = &u.Time
	}
	f.found(since, fmt.Sprintf("version %s is not proven yet: the agent was not running when the host switched to it; a run of "+
		"the timer proves it once the agent was healthy for the health window", h.c.Spec.ActiveVersion))
	return nil
}

func noSystemd(h *host, f *finder) error {
	if h.blind == nil && h.agent.State == state.AgentUnknown {
		f.found(nil, "systemd does not run here: nobody can say how the agent is, and agent and timer start once it does")
	}
	return nil
}
