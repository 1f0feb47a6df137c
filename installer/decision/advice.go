package decision

import (
	"errors"
	"fmt"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/systemd"
)

// Crashes says since when a version crashes again and again, and what then can be done.
func Crashes(u *state.Unstable, then string) string {
	return fmt.Sprintf("the agent of version %s crashes again and again since %s, found by %d %s of the timer: %s",
		u.Short(), u.Since.Format(time.RFC3339), u.Count, Plural(u.Count, "run", "runs"), then)
}

// LookAtJournal says where to find the agent's error.
const LookAtJournal = "`journalctl -u teleport` says why"

// backTo advises a rollback if there is a version to go back to and nothing refuses it, and says where to look. If the host keeps the agent
// from starting, no version is the cause, and a rollback would give up this version's database for nothing.
func (h *facts) backTo() string {
	if why := h.against(ofHost); why != "" {
		return "put right what keeps it from starting, whatever its version: " + why
	}
	if h.agent.NeverBegan() {
		return "systemd begins no process of it, which is not because of its version: " + LookAtJournal
	}
	previous, refused := h.previous()
	switch {
	case refused != "":
		return LookAtJournal + "; " + refused
	case previous.Version != "":
		return fmt.Sprintf("`teleport-update rollback` goes back to version %s, %s", previous.Version, LookAtJournal)
	}
	return LookAtJournal
}

// again advises to start an agent that failed, and that systemd does not start again, if nothing speaks against the start.
func (h *facts) again() string {
	switch {
	case h.agent.ActiveState != "failed" || h.keepsFromStarting() != "":
		return ""
	case h.c.Spec.Enabled:
		return "`teleport-update update` starts it; "
	}
	return h.advise("`systemctl start teleport` starts it") + "; "
}

// previous returns the version that a rollback goes back to, if there is one, and why it would be refused, with what helps. Without Deep,
// previous does not look for a refusal.
func (h *facts) previous() (previous version.Release, refused string) {
	previous = PreviousToGoBackTo(h.Survey, h.c)
	if previous.Version == "" || !h.Deep || h.Back == nil {
		return previous, ""
	}
	if err := h.Back(h); err != nil {
		refused = "a rollback would be refused: " + wayOut(err)
	}
	return previous, refused
}

// untried says what follows the first start of a version that no agent has run here yet; empty for a proven version, and for a version with
// nothing to go back to.
func (h *facts) untried() string {
	if !h.c.Status.Unproven {
		return ""
	}
	previous, refused := h.previous()
	if previous.Version == "" {
		return ""
	}
	then := fmt.Sprintf("the next run of the timer goes back to version %s if it fails", previous.Short())
	switch {
	case refused != "":
		then = refused
	case !h.c.Spec.Enabled || h.c.Spec.Pinned:
		then = fmt.Sprintf("nothing but `teleport-update rollback` goes back to version %s if it fails", previous.Short())
	}
	return fmt.Sprintf(" starts version %s, which has not run on this host yet: %s", h.c.Active().Short(), then)
}

func (h *facts) masked() string {
	at := ""
	if h.agent.Mask != "" {
		at = " by " + h.agent.Mask
	}
	return fmt.Sprintf("%s is masked%s: `%s`", h.Paths().AgentUnit(), at, systemd.Unmask(h.Paths().AgentUnit()))
}

// restart advises to restart an agent that runs another release than the linked one, if the linked one may take over its database: a newer
// release may have changed the database.
func (h *facts) restart(runs version.Release) string {
	linked := h.c.Active()
	switch {
	case runs.Version != "" && h.c.Edited():
		return fmt.Sprintf("do not restart it: no change of version led to version %s, and the start of that could change the agent's database "+
			"without a backup; %s", linked.Short(), h.c.GoOnWith(runs))
	case runs.Version == "":
		return fmt.Sprintf("do not restart it before it is known that its database fits version %s: whoever put that program "+
			"there may have put a newer version there", linked.Short())
	case version.Compare(runs.Version, linked.Version) > 0 && h.Kept(runs):
		return fmt.Sprintf("do not restart it: version %s may have changed its database; `teleport-update pin %s` links the version that runs",
			runs.Short(), runs.Version)
	case version.Compare(runs.Version, linked.Version) > 0:
		return fmt.Sprintf("do not restart it: version %s may have changed its database", runs.Short())
	}
	return h.adviseRestart("`systemctl restart teleport` starts the linked version")
}

// wayOut returns a refusal without the words that the refused command changed nothing.
func wayOut(why error) string {
	if e, ok := errors.AsType[*failure.Error](why); ok && e.Fix != "" {
		return fmt.Sprintf("%v: %s", e.What, e.Fix)
	}
	return why.Error()
}

// command advises the command that repairs the active version: `teleport-update update` leaves a host alone on which updates are off.
func (h *facts) command(does string) string {
	if h.c.Spec.Enabled {
		return "`teleport-update update` " + does
	}
	return "updates are disabled; `teleport-update enable` turns them on and " + does + h.alsoSwitches()
}

// alsoSwitches completes an advice to run enable for something else: it does not wait for the host's turn. It is empty if the host would
// stay on its version.
func (h *facts) alsoSwitches() string {
	stays := h.c.Spec.Pinned || h.Desired == h.c.Active() || h.c.Status.Held.Holds(h.Desired)
	if h.c.Spec.ActiveVersion == "" || h.Desired.Version == "" || stays {
		return ""
	}
	return fmt.Sprintf("; `enable` also switches to version %s at once", h.Desired.Short())
}

func orUnknown(s string) string {
	if s == "" {
		return "?"
	}
	return s
}
