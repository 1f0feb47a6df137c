package decision

import (
	"errors"
	"fmt"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
)

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

// advise is an advice to start the agent, or why that would do harm.
func (h *facts) advise(start string) string {
	if why := h.keepsFromStarting(); why != "" {
		return "do not start it before this is put right: " + why
	}
	return start
}

// untried says what comes of the first start of a version that no agent has run here yet; empty for
// a proven one, and for one with nothing to go back to.
func (h *facts) untried() string {
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
func (h *facts) keepsFromStarting() string {
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
	case a.LoadState != "" && a.LoadState != "loaded":
		return fmt.Sprintf("systemd has its unit as %s: `systemctl status %s` says why", a.LoadState, h.Paths().AgentUnit())
	case a.Ties.RefusesStart:
		return "systemd refuses to start its unit when asked (RefuseManualStart=)"
	case len(unmet) > 0:
		return fmt.Sprintf("systemd would not start it, for %v does not hold now", unmet[0])
	}
	if why, err := h.Starts(h); err != nil || why != nil {
		return fmt.Sprint(firstOf(err, why))
	}
	if why := h.needs(); why != nil {
		return why.Error()
	}
	if why := h.Fits(h); why != nil {
		return why.Error()
	}
	return ""
}

// needs says which unit that the agent's unit needs keeps systemd from starting it. It takes a question to systemd for each, so
// runs of the timer do without it.
func (h *facts) needs() error {
	if !h.Deep {
		return nil
	}
	why, err := h.Needs(h)
	return firstOf(err, why)
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (h *facts) masked() string {
	at := ""
	if h.agent.Mask != "" {
		at = " by " + h.agent.Mask
	}
	return fmt.Sprintf("%s is masked%s: `systemctl unmask %s`", h.Paths().AgentUnit(), at, h.Paths().AgentUnit())
}

// restart advises to restart an agent that runs another release than the linked one, if the
// linked one may take over its database: a newer one may have changed that.
func (h *facts) restart(runs version.Release) string {
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

// wayOut is a refusal without the words that the command which was refused changed nothing.
func wayOut(why error) string {
	if e, ok := errors.AsType[*failure.Error](why); ok && e.Fix != "" {
		return fmt.Sprintf("%v: %s", e.What, e.Fix)
	}
	return why.Error()
}

// command is what repairs the active version: a host on which updates are off is left alone
// by the other one.
func (h *facts) command() string {
	if h.c.Spec.Enabled {
		return "`teleport-update update`"
	}
	return "updates are disabled; `teleport-update enable` turns them on and"
}

func orUnknown(s string) string {
	if s == "" {
		return "?"
	}
	return s
}
