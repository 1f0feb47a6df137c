package inventory

import (
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
)

// clockDiffers is the difference from which on the clocks of two servers disagree.
const clockDiffers = 10 * time.Minute

// merge merges the entries of a host from this server and from the store, where another
// server wrote it. changed says that this server has something to write. The report
// with the higher sequence is the later one: several may come in a second. Failures
// from both sides stay.
func merge(ours, theirs fleet.Entry, changed bool) fleet.Entry {
	if ours.Secret != theirs.Secret {
		return theirs // the secret was revoked, or the host has joined again
	}
	e, other := theirs, ours
	if changed && ours.Sequence > theirs.Sequence {
		e, other = ours, theirs
	}
	mergeFailure(&e, &other)
	// After a leap of its clock, or without other servers' lists, a server may take a host for one that is back after a long
	// time. If others have heard from it all the time, it is not new: a new host is in no count for a minute, and a group
	// could end without it.
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

// matters reports whether anything has changed but the last time of a report.
func matters(before, after fleet.Entry) bool {
	for _, e := range []*fleet.Entry{&before, &after} {
		e.LastSeen, e.Sequence, e.Floor, e.Burst = time.Time{}, 0, 0, 0
		for _, at := range []*time.Time{&e.FirstSeen, &e.Told.At, &e.Begun.At, &e.Failed.At, &e.Failed.Outcome, &e.Failed.Until, &e.Alternated} {
			*at = at.UTC().Truncate(time.Second)
		}
	}
	return before != after
}

// mergeFailure settles which failure of a host is the last one, and when a server first heard of it. A host repeats the result of its
// last attempt: a server that did not know it takes it for a present failure, which would count for a later attempt. e is the entry
// with the later report.
func mergeFailure(e, other *fleet.Entry) {
	setBack := e.Sequence > other.Sequence && other.LastSeen.Sub(e.LastSeen) > clockDiffers // the clock of e's server
	known := e.Failed.Target == other.Failed.Target && e.Failed.Outcome.Equal(other.Failed.Outcome)
	switch {
	case other.Failed.Outcome.After(e.Failed.Outcome): // by the clock of the host, since those of servers may differ
		e.Failed = other.Failed
	case known && (setBack || other.Failed.At.Before(e.Failed.At)):
		e.Failed.At = other.Failed.At
	case !known && e.Sequence > other.Sequence:
		notEarlier(&e.Failed.Event, other.Failed.Event, other.LastSeen)
	}
}

// notEarlier moves a host's new event to the last report without it, if the event lies long before that report: the clock of
// the server that took the event was set back. Otherwise a failure would count for an earlier attempt.
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
