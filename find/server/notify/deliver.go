package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// markTime bounds the write of a mark when the server is being stopped.
const markTime = 15 * time.Second

// serve posts the events that are due for a webhook, one after another.
func (n *Notifier) serve(ctx context.Context, h *hook) {
	for {
		n.mu.Lock()
		w := h.due(n.opts.Clock())
		if w == nil || ctx.Err() != nil {
			h.busy = false
			n.mu.Unlock()
			return
		}
		resource := h.Notify
		n.mu.Unlock()
		// A stop of the server lets a post end: a cut post would be repeated at the next start.
		late := context.WithoutCancel(ctx)
		o := n.attempt(late, resource, w)
		if o.result == Delivered {
			n.mark(late, w.Notice, resource.Metadata.Name)
		}
		n.record(h, w, o)
	}
}

// attempt posts an event unless it is too old: the machine may have been suspended.
func (n *Notifier) attempt(ctx context.Context, h *rollout.Notify, w *waiting) outcome {
	now := n.opts.Clock()
	if !now.Before(w.Time.Add(rollout.NoticeLife)) {
		return outcome{result: GivenUp, err: fmt.Errorf("the event is older than %s", rollout.NoticeLife)}
	}
	o := n.post(ctx, h, w.Notice, now)
	if o.result != Failed {
		return o
	}
	w.attempts++
	if w.attempts > len(retryAfter) {
		o.result = GivenUp
		return o
	}
	next := n.opts.Clock().Add(max(retryAfter[w.attempts-1], o.after))
	if !next.Before(w.Time.Add(rollout.NoticeLife)) {
		o.result = GivenUp
		return o
	}
	n.mu.Lock()
	w.next = next
	n.mu.Unlock()
	return o
}

// mark writes into the store that a webhook has got an event. The event that a server is blocked is not in the store.
func (n *Notifier) mark(ctx context.Context, e rollout.Notice, hook string) {
	if e.Kind == rollout.NoticeBlocked {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, markTime)
	defer cancel()
	_, err := n.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{{
		Key: markKey(e, hook), Value: []byte("{}"), Expires: e.Time.Add(rollout.NoticeLife),
	}}})
	if _, there := errors.AsType[*store.ConflictError](err); err != nil && !there {
		n.opts.Log.Warn("the mark of a delivered event cannot be written: a server that starts within ten minutes posts the event again",
			"webhook", hook, "event", e.ID, "error", err)
	}
}

// markKey is the key of the mark that a webhook has got an event.
func markKey(e rollout.Notice, hook string) string { return rollout.NoticePrefix + e.ID + "/" + hook }

// record keeps the outcome of an attempt, counts it, and logs it if the webhook begins or ceases to fail.
func (n *Notifier) record(h *hook, w *waiting, o outcome) {
	n.opts.Delivered(o.result)
	n.mu.Lock()
	defer n.mu.Unlock()
	now, log, wasFailing := n.opts.Clock(), n.opts.Log.With("webhook", h.Metadata.Name, "event", w.ID), !h.failing.IsZero()
	if o.result != Failed {
		h.waiting = slices.DeleteFunc(h.waiting, func(other *waiting) bool { return other == w })
	}
	switch o.result {
	case Delivered:
		h.succeeds()
		if wasFailing {
			log.Info("a webhook takes events again")
		}
	case GivenUp:
		h.fails(o.err, now)
		h.givenUp++
		h.lastGivenUp = now
		log.Error("an event was not delivered, and is not posted again", "error", o.err)
	case Failed:
		h.fails(o.err, now)
		if !wasFailing {
			log.Warn("an event was not delivered, and is posted again", "error", o.err)
		}
	}
}

// due returns the oldest event whose attempt is due, or nil.
func (h *hook) due(now time.Time) *waiting {
	at := slices.IndexFunc(h.waiting, func(w *waiting) bool { return !w.next.After(now) })
	if at < 0 {
		return nil
	}
	return h.waiting[at]
}

func (h *hook) succeeds() { h.failing, h.err = time.Time{}, nil }

func (h *hook) fails(err error, now time.Time) {
	h.err = err
	if h.failing.IsZero() {
		h.failing = now
	}
}

// parseEvent reads an event of the store. It returns an error for a mark.
func parseEvent(item store.Item) (e rollout.Notice, err error) {
	e.ID = strings.TrimPrefix(item.Key, rollout.NoticePrefix)
	if strings.Contains(e.ID, "/") {
		return e, fmt.Errorf("%s is a mark", item.Key)
	}
	if err = json.Unmarshal(item.Value, &e); err != nil {
		err = fmt.Errorf("the store's %s is not one that this version understands: %w", item.Key, err)
	}
	return e, err
}

func parseHook(item store.Item) (*rollout.Notify, error) {
	list, err := rollout.Parse(item.Value)
	if err != nil {
		return nil, err
	}
	h, is := list[0].(*rollout.Notify)
	if !is || len(list) != 1 || rollout.Key(h) != item.Key {
		return nil, fmt.Errorf("the store's %s is another resource", item.Key)
	}
	h.Metadata.Revision = int64(item.Revision)
	return h, nil
}
