package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// statePrefix is what the keys of states begin with; the name of the webhook follows.
const statePrefix = "notify_state/"

const (
	// leaseTime is more than a post takes, and what an event waits for if the server
	// that posts it is killed.
	leaseTime = 30 * time.Second
	// keepTrying is how long an event is tried.
	keepTrying = 3 * 24 * time.Hour
	// maxWaiting bounds what waits for a receiver that is away; the oldest go first.
	maxWaiting = 500
)

// delivery is how far the posts of a webhook are, in the store.
type delivery struct {
	// Cursor is the revision up to which events are in Waiting, or were posted.
	Cursor  store.Revision `json:"cursor"`
	Waiting []waiting      `json:"waiting,omitempty"`
	Lease   lease          `json:"lease,omitzero"`

	Delivered time.Time `json:"delivered,omitzero"`     // the last time
	Failing   time.Time `json:"failing_since,omitzero"` // nothing was delivered since
	Error     string    `json:"error,omitempty"`        // of the last attempt
	// Gone says that the receiver wants nothing more, of the webhook as it was at a revision.
	Gone   time.Time `json:"gone,omitzero"`
	GoneAt int64     `json:"gone_revision,omitempty"`
	// GivenUp counts events that were never delivered.
	GivenUp     int       `json:"given_up,omitempty"`
	LastGivenUp time.Time `json:"last_given_up,omitzero"`

	revision store.Revision
}

// waiting is an event that is to be posted.
type waiting struct {
	ID       string    `json:"id"`
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts,omitempty"`
	Next     time.Time `json:"next,omitzero"` // zero: at once
}

// lease says who posts to the webhook, by the store's clock.
type lease struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// begin is the state of a new webhook: it hears of what happens after it was written.
func begin(h *rollout.Notify) delivery { return delivery{Cursor: store.Revision(h.Metadata.Revision)} }

func parseDelivery(item store.Item) (s delivery, err error) {
	if err = json.Unmarshal(item.Value, &s); err != nil {
		err = fmt.Errorf("the store's %s is not one that this version understands: %w", item.Key, err)
	}
	s.revision = item.Revision
	return s, err
}

// stopped reports whether the receiver wants nothing of the webhook as it is.
func (s *delivery) stopped(h *rollout.Notify) bool {
	return !s.Gone.IsZero() && s.GoneAt == h.Metadata.Revision
}

// wants reports whether there is something to do for the webhook. The cursor passes events
// of other kinds, too: they are not posted if the webhook subscribes to their kind later.
func (s *delivery) wants(list []notice, now time.Time) bool {
	isNew := func(n notice) bool { return n.at > s.Cursor }
	return s.due(now) >= 0 || slices.ContainsFunc(list, isNew)
}

// due returns the place of the oldest event whose attempt is due, or -1.
func (s *delivery) due(now time.Time) int {
	return slices.IndexFunc(s.Waiting, func(w waiting) bool { return !w.Next.After(now) })
}

// waitsFor reports whether an event is to be posted.
func (s *delivery) waitsFor(id string) bool {
	return slices.ContainsFunc(s.Waiting, func(w waiting) bool { return w.ID == id })
}

// take puts new events into Waiting. It reports how many there was no room for.
func (s *delivery) take(list []notice, h *rollout.Notify, now time.Time) (dropped int) {
	for _, n := range list {
		if n.at <= s.Cursor {
			continue
		}
		s.Cursor = n.at
		if slices.Contains(h.Spec.Kinds, n.kind) {
			s.Waiting = append(s.Waiting, waiting{ID: n.id, Since: now})
		}
	}
	if dropped = len(s.Waiting) - maxWaiting; dropped > 0 {
		s.Waiting = slices.Delete(s.Waiting, 0, dropped)
		s.GivenUp, s.LastGivenUp = s.GivenUp+dropped, now
	}
	return max(dropped, 0)
}

// record adds the outcome of a post.
func (s *delivery) record(id string, o outcome, h *rollout.Notify, now time.Time) Result {
	at := slices.IndexFunc(s.Waiting, func(w waiting) bool { return w.ID == id })
	if at < 0 {
		return o.result
	}
	w := &s.Waiting[at]
	switch o.result {
	case Delivered:
		s.Waiting = slices.Delete(s.Waiting, at, at+1)
		s.Delivered, s.Failing, s.Error, s.Gone = now, time.Time{}, "", time.Time{}
		return Delivered
	case Gone:
		s.Waiting, s.Gone, s.GoneAt, s.Error = nil, now, h.Metadata.Revision, o.err.Error()
		return Gone
	}
	s.Error = o.err.Error()
	if s.Failing.IsZero() {
		s.Failing = now
	}
	w.Attempts++
	w.Next = now.Add(max(backOff(w.Attempts), o.after))
	if o.result != Lost && w.Next.Before(w.Since.Add(keepTrying)) {
		return Failed
	}
	s.Waiting = slices.Delete(s.Waiting, at, at+1)
	s.GivenUp, s.LastGivenUp = s.GivenUp+1, now
	return GivenUp
}
