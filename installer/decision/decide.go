package decision

import (
	"fmt"
	"time"

	"teleport-update/find/want"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// Returned says why the host does not switch again to a version that it has just come back from.
func Returned(r version.Release, again time.Time) string {
	return fmt.Sprintf("this host went to version %s and back within an hour, and the cluster wants %[1]s again: its servers may disagree, "+
		"as while they are upgraded; the timer switches at %s, `teleport-update update` switches now", r.Short(), again.Format(time.RFC3339))
}

// WhyNot says, for the log and for a person who asks, why a host does not switch to the version
// that its cluster wants; empty if it does.
func WhyNot(d want.Decision, s state.Status) string {
	target, when := d.Release.Short(), d.When.Format(time.RFC3339)
	switch d.Why {
	case want.NoVersion:
		return NamesNoVersion
	case want.Reached:
		return fmt.Sprintf("version %s is active and wanted", target)
	case want.NotDue:
		return fmt.Sprintf("the cluster wants %s, but not now (agent_autoupdate is false)", target)
	case want.Held:
		return fmt.Sprintf("the host is held since a rollback by hand at %s, and does not switch to version %s; "+
			"`teleport-update update --now` releases it", when, target)
	case want.JustLeft:
		return Returned(d.Release, d.When)
	case want.BackingOff:
		n := s.FailureOf(d.Release).Attempts
		return fmt.Sprintf("version %s failed %d %s, next attempt at %s; `teleport-update update --now` tries at once",
			target, n, Plural(n, "time", "times"), when)
	}
	return ""
}
