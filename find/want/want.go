// Package want decides whether an agent changes to the version that its cluster wants.
//
// The package computes with values alone: it reads no file, no clock and no network, and it
// knows no kind of host. Each updater asks for the wish in its own way (a find answer, a
// channel), says what it remembers of the agent, and carries the decision out in its own way.
// Whether the change can be made (a policy, a backup, room on a disk) is the updater's question.
package want

import (
	"time"

	"teleport-update/internal/version"
)

// Wish is what a cluster wants of an agent.
type Wish struct {
	version.Release // the zero Release: the cluster names no version

	// Due: an agent that runs another version may change now (agent_autoupdate of find,
	// a maintenance window).
	Due bool
}

// Agent is the running release, and the updater's memory of the wished release.
type Agent struct {
	Active  version.Release // the zero Release: nothing is installed
	Hold    *Hold           // nil: no rollback by hand holds the agent
	Failure *Failure        // of the wished release; nil: it is not known to have failed
	// AgainAt is when a timer takes the agent to the wished release again, which the
	// agent has just left. Zero: nothing is waited for.
	AgainAt time.Time
}

// Turn is one look at a wish.
type Turn struct {
	At        time.Time
	Scheduled bool // a timer looks, and no person
	// Now: a person wants the change at once. It needs no window, ends a hold and tries a
	// release that failed.
	Now bool
	// Announced is the checksum that the mirrors announce for the wished release. It is
	// needed only for a release that backs off. Empty: it is not known.
	Announced string
}

// Why says why an agent stays as it is.
type Why string

const (
	Changes    Why = ""            // the agent does not stay
	NoVersion  Why = "no version"  // the cluster names no version
	Reached    Why = "reached"     // the wished release is active
	NotDue     Why = "not due"     // the cluster wants the change, and not now
	Held       Why = "held"        // a rollback by hand holds the agent since When
	JustLeft   Why = "just left"   // the agent has left the release within the hour; a timer changes at When
	BackingOff Why = "backing off" // the release failed; its next attempt is at When
)

// Decision is the decision about a wish.
type Decision struct {
	Release   version.Release // the wished release
	Why       Why
	When      time.Time // see Why; otherwise zero
	Downgrade bool      // the change goes to an older version
	// SHA256 is the checksum of a release that was published again, under the name of one that
	// failed. Empty: any checksum will do.
	SHA256 string
}

// Change reports whether the agent is to change to the release.
func (d Decision) Change() bool { return d.Why == Changes }

// Decide decides about a wish. The first row that fits decides.
func Decide(w Wish, a Agent, t Turn) Decision {
	d := Decision{Release: w.Release}
	stay := func(why Why, when time.Time) Decision {
		d.Why, d.When = why, when
		return d
	}
	switch failed := a.Failure; {
	case w.Version == "":
		return stay(NoVersion, time.Time{})
	case a.Active == w.Release:
		return stay(Reached, time.Time{})
	case t.Now:
	case !w.Due:
		return stay(NotDue, time.Time{})
	case a.Hold.Holds(w.Release):
		return stay(Held, a.Hold.Since)
	case t.Scheduled && !a.AgainAt.IsZero():
		return stay(JustLeft, a.AgainAt)
	case !failed.BackingOff(t.At):
	case failed.ReplacedBy(t.Announced):
		d.SHA256 = t.Announced
	default:
		return stay(BackingOff, failed.NextAttempt)
	}
	d.Downgrade = a.Active.Version != "" && version.Compare(w.Version, a.Active.Version) < 0
	return d
}
