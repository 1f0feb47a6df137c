package decision

import (
	"fmt"
	"time"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// Action is what a tick has to do.
type Action int

const (
	Nothing Action = iota // the reason says why
	Switch                // install the target and switch to it
)

// Decision is what to do about an answer of find.
type Decision struct {
	Action    Action
	Target    version.Release
	Reason    string // for the log, and for a person who asks why nothing happens
	Downgrade bool
	// BackingOff: nothing is done because the version failed. Whether it still is
	// the release that failed is for its checksum to tell.
	BackingOff bool
	// SHA256 is the checksum of a release that was published again, under the name
	// of one that failed.
	SHA256 string
}

// Wish is all that the decision depends on.
type Wish struct {
	Spec   state.Spec
	Status state.Status
	Answer find.Answer
	Now    bool // a person said --now
	Timer  bool // the timer asks
	Time   time.Time
	// Announced is the checksum that the mirrors announce for a version that
	// backs off; empty when nobody asked them, or none answered.
	Announced string
}

// Returned says why a version is not switched to that the host has just come back from.
func Returned(r version.Release, again time.Time) string {
	return fmt.Sprintf("this host went to version %s and back within an hour, and the cluster wants %[1]s again: its servers may disagree, "+
		"as while they are upgraded; the timer switches at %s, `teleport-update update` switches now", r.Short(), again.Format(time.RFC3339))
}

// Decide says what an update should do about an answer of find. It looks at
// nothing but its argument. Whether a downgrade is allowed depends on backups
// and is judged later, by the plan.
func Decide(q Wish) Decision {
	t := version.Release{Version: q.Answer.Version, Edition: q.Answer.Edition}
	d := Decision{Target: t}
	active := q.Spec.ActiveVersion
	again, returned := q.Status.AgainAt(t, q.Time)
	switch {
	case t.Version == "":
		d.Reason = NamesNoVersion
		return d
	case active == t.Version && q.Status.ActiveEdition == t.Edition:
		d.Reason = fmt.Sprintf("version %s is active and wanted", t.Short())
		return d
	case q.Now:
	case !q.Answer.AutoUpdate:
		d.Reason = fmt.Sprintf("the cluster wants %s, but not now (agent_autoupdate is false)", t.Short())
		return d
	case q.Status.Held.Holds(t):
		d.Reason = fmt.Sprintf("the host is held since a rollback by hand at %s, and does not switch to version %s; "+
			"`teleport-update update --now` releases it",
			q.Status.Held.Since.Format(time.RFC3339), t.Short())
		return d
	case returned && q.Timer:
		d.Reason = Returned(t, again)
		return d
	case q.Status.FailureOf(t).BackingOff(t, q.Time) && q.Status.FailureOf(t).ReplacedBy(q.Announced):
		d.SHA256 = q.Announced
	case q.Status.FailureOf(t).BackingOff(t, q.Time):
		f := q.Status.FailureOf(t)
		d.BackingOff = true
		d.Reason = fmt.Sprintf("version %s failed %d %s, next attempt at %s; `teleport-update update --now` tries at once",
			t.Short(), f.Attempts, Plural(f.Attempts, "time", "times"), f.NextAttempt.Format(time.RFC3339))
		return d
	}
	d.Action = Switch
	d.Downgrade = active != "" && version.Compare(t.Version, active) < 0
	return d
}
