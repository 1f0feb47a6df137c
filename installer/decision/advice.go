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

// Crashes says of a version that crashes again and again since when, and what then can be done.
func Crashes(u *state.Unstable, then string) string {
	return fmt.Sprintf("the agent of version %s crashes again and again since %s, found by %d %s of the timer: %s",
		u.Short(), u.Since.Format(time.RFC3339), u.Count, Plural(u.Count, "run", "runs"), then)
}

// LookAtJournal says where the agent tells what is wrong with it.
const LookAtJournal = "`journalctl -u teleport` says why"

// backTo advises a rollback if there is a version to go back to and nothing refuses it, and says where to look. If the host keeps
// the agent from starting, no version is the cause, and a rollback would give up the database of this one for nothing.
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

// previous is the version that a rollback goes back to, if there is one, and why it would be refused, with what helps. Who
// does not ask for what takes longer is not told of a refusal.
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

// untried says what comes of the first start of a version that no agent has run here yet; empty for
// a proven one, and for one with nothing to go back to.
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

// restart advises to restart an agent that runs another release than the linked one, if the
// linked one may take over its database: a newer one may have changed that.
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
