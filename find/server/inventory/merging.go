package inventory

import (
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
)

// clockDiffers is from which difference on the clocks of two servers do not agree.
const clockDiffers = 10 * time.Minute

// merge is what is known of a host by a server that has heard of it, and by another
// one that has written to the store. changed says that the first one has something to
// write. Of two reports the one with the higher sequence is the later one: several may
// come in a second. A verdict of either stays.
func merge(ours, theirs fleet.Entry, changed bool) fleet.Entry {
	if ours.Secret != theirs.Secret {
		return theirs // it was revoked, or has joined again
	}
	e, other := theirs, ours
	if changed && ours.Sequence > theirs.Sequence {
		e, other = ours, theirs
	}
	mergeFailure(&e, &other)
	// To a server whose clock leaps, or that was not told who reports to others, a host may be back after a long time. One that
	// others have heard of all the time is not new: it would be in no count for a minute, and a group could end without it.
	if e.FirstSeen.After(other.FirstSeen) && e.FirstSeen.Sub(other.LastSeen) <= rollout.PresentFor {
		e.FirstSeen = other.FirstSeen
	}
	if other.LastSeen.After(e.LastSeen) {
		e.LastSeen = other.LastSeen
	}
	if e.Sequence > other.Sequence {
		notEarlier(&e.Told, other.Told, other.LastSeen)
		notEarlier(&e.Begun, other.Begun, other.LastSeen)
	}
	e.Cloned, e.Alternated = e.Cloned || other.Cloned, latest(e.Alternated, other.Alternated)
	e.Sequence, e.Floor, e.Revision = max(e.Sequence, other.Sequence), max(e.Floor, other.Floor), theirs.Revision
	return e
}

// matters reports whether a host has changed in more than when it was last heard of.
func matters(before, after fleet.Entry) bool {
	for _, e := range []*fleet.Entry{&before, &after} {
		e.LastSeen, e.Sequence, e.Floor, e.Burst = time.Time{}, 0, 0, 0
		for _, at := range []*time.Time{&e.FirstSeen, &e.Told.At, &e.Begun.At, &e.Failed.At, &e.Failed.Outcome, &e.Failed.Until, &e.Alternated} {
			*at = at.UTC().Truncate(time.Second)
		}
	}
	return before != after
}

// mergeFailure settles which failure of a host is the last one, and when servers have heard of it first. A host repeats how its last
// attempt ended: to a server that had not heard of that before, it is a failure of now, and would count for a later attempt. e is the
// entry of the later report.
func mergeFailure(e, other *fleet.Entry) {
	setBack := e.Sequence > other.Sequence && other.LastSeen.Sub(e.LastSeen) > clockDiffers // the clock of e's server was
	known := e.Failed.Target == other.Failed.Target && e.Failed.Outcome.Equal(other.Failed.Outcome)
	switch {
	case other.Failed.Outcome.After(e.Failed.Outcome): // by the clock of the host: those of the servers may differ
		e.Failed = other.Failed
	case known && (setBack || other.Failed.At.Before(e.Failed.At)):
		e.Failed.At = other.Failed.At
	case !known && e.Sequence > other.Sequence:
		notEarlier(&e.Failed.Event, other.Failed.Event, other.LastSeen)
	}
}

// notEarlier moves what a host says for the first time to when it was last heard without it, if it lies long before: the clock
// of the server that took the later report was set back. A failure would count for an attempt before the one that it is of.
func notEarlier(e *rollout.Event, before rollout.Event, heard time.Time) {
	if e.Target != "" && *e != before && heard.Sub(e.At) > clockDiffers {
		e.At = heard
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
