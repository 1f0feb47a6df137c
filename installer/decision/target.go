package decision

import (
	"fmt"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/version"
)

// NamesNoVersion is said of an answer of find without a version.
const NamesNoVersion = "the cluster names no version for this host"

// aim says why what find wants is not active, by the one type that it is: the empty one
// where it is active.
func (h *host) aim() Type {
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

func hostHeld(h *host, f *finder) error {
	if held := h.c.Status.Held; h.aim() == HostHeld {
		wish := held.Version
		if h.Desired.Version != "" {
			wish = h.Desired.Version
		}
		f.found(&held.Since, fmt.Sprintf("the host is held since a rollback by hand, and does not switch to version %s; "+
			"`teleport-update update --now` releases it", wish))
	}
	return nil
}

func versionBacksOff(h *host, f *finder) error {
	if h.aim() != VersionBacksOff {
		return nil
	}
	var since *time.Time
	if u := h.c.Status.LastUpdate; u != nil {
		since = &u.Time
	}
	failed := h.c.Status.FailureOf(h.Desired)
	f.found(since, fmt.Sprintf("version %s failed %d %s; next attempt at %s, `teleport-update update --now` tries at once",
		failed.Version, failed.Attempts, Plural(failed.Attempts, "time", "times"), failed.NextAttempt.Format(time.RFC3339)))
	return nil
}

func targetRefused(h *host, f *finder) error {
	if h.aim() == TargetRefused {
		f.found(nil, h.Policy.Refusal(h.c.Status.Refused))
	}
	return nil
}

func targetNone(h *host, f *finder) error {
	if h.aim() == TargetNone {
		f.found(nil, NamesNoVersion)
	}
	return nil
}

func targetUnknown(h *host, f *finder) error {
	if h.aim() != TargetUnknown {
		return nil
	}
	why := h.AskError
	if why == "" {
		why = "it has not been asked yet"
	}
	f.found(nil, "the version that the cluster wants is not known: "+why)
	return nil
}

func updateWaits(h *host, f *finder) error {
	if h.aim() != UpdateWaits {
		return nil
	}
	if again, waits := h.c.Status.AgainAt(h.Desired, h.Now()); waits {
		f.found(&h.c.Status.Returned.Since, Returned(h.Desired, again))
		return nil
	}
	if h.Jitter != nil {
		f.found(nil, fmt.Sprintf("the cluster wants %s; this host switches at %s, a random time, so that not all hosts switch at "+
			"once. `teleport-update update --now` switches now",
			h.Desired.Short(), h.Jitter.Format(time.RFC3339)))
		return nil
	}
	timer := "a run of the timer switches to it once it is this host's turn"
	if off, stopped := h.timer(); off+stopped != "" {
		timer = "no run of the timer comes, `teleport-update update` switches to it once it is this host's turn"
	}
	f.found(nil, fmt.Sprintf("the cluster wants %s; %s", h.Desired.Short(), timer))
	return nil
}

func groupUnknown(h *host, f *finder) error {
	if h.NoGroup {
		f.found(nil, UnknownGroup(h.Group))
	}
	return nil
}

// UnknownGroup says what it means that find does not know a group.
func UnknownGroup(name string) string {
	return fmt.Sprintf("find has no group %q, and treats this host as one that names no group: `teleport-update enable --group "+
		"NAME` corrects the name, or somebody adds the group on the server", name)
}

// Plural is the word for a number of things.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// PreviousToGoBackTo is the version that a rollback without a name goes back to; the zero
// Release where there is none, or its folder is gone.
func PreviousToGoBackTo(s *survey.Survey, c state.Config) version.Release {
	previous := c.Previous()
	if c.Status.Held != nil || previous.Version == "" || !s.Kept(previous) {
		return version.Release{}
	}
	return previous
}
