package notify

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// releaseTime is how long a post that is under way goes on when the server is being
// stopped, and how long the write of what came of it may take then.
const releaseTime = 3 * time.Second

// serve posts what is due for a webhook, one event after another, unless another server
// does. What cannot be read or written is left for the next look.
func (n *Notifier) serve(ctx context.Context, h *rollout.Notify) {
	for ctx.Err() == nil {
		again, err := n.serveOne(ctx, h)
		if err != nil {
			if _, conflict := errors.AsType[*store.ConflictError](err); !conflict && ctx.Err() == nil {
				n.opts.Log.Warn("the state of a webhook cannot be kept, and its events wait", "webhook", h.Metadata.Name, "error", err)
			}
			return
		}
		if !again {
			return
		}
	}
}

// serveOne posts one event, and reports whether there may be another one.
func (n *Notifier) serveOne(ctx context.Context, h *rollout.Notify) (again bool, err error) {
	name := h.Metadata.Name
	s, err := n.state(ctx, h)
	if err != nil || s.stopped(h) {
		return false, err
	}
	now, err := n.opts.Store.Now(ctx)
	if err != nil {
		return false, err
	}
	if s.Lease.By != n.self && now.Before(s.Lease.Until) {
		return false, nil // another server does, or has just been killed
	}
	cursor := s.Cursor
	list, _ := n.known()
	if dropped := s.take(list, h, now); dropped > 0 {
		n.opts.Log.Error("too many events wait for a webhook, and the oldest are given up", "webhook", name, "events", dropped)
	}
	at := s.due(now)
	if at < 0 {
		if s.Cursor != cursor || s.Lease.By != "" {
			s.Lease = lease{}
			err = n.keep(ctx, name, &s)
		}
		return false, err
	}
	id := s.Waiting[at].ID
	s.Lease = lease{n.self, now.Add(leaseTime)}
	if err := n.keep(ctx, name, &s); err != nil {
		return false, err
	}
	late, stop := outlive(ctx, releaseTime)
	defer stop()
	o, err := n.postNotice(late, h, id, now)
	if err != nil {
		return false, err
	}
	// Else the event would be posted again by whoever has the lease next.
	kept, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if ctx.Err() == nil {
		kept = ctx
	}
	if now, err = n.opts.Store.Now(kept); err != nil {
		return false, err
	}
	if late.Err() == nil {
		n.note(h, &s, id, o, now)
	}
	if again = s.due(now) >= 0 && ctx.Err() == nil; !again {
		s.Lease = lease{}
	}
	return again, n.keep(kept, name, &s)
}

// outlive returns a context that ends some time after another one.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(by)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}

// note records what came of a post, and tells people of what changes.
func (n *Notifier) note(h *rollout.Notify, s *state, id string, o outcome, now time.Time) {
	wasFailing := !s.Failing.IsZero()
	result := s.record(id, o, h, now)
	n.opts.Delivered(result)
	log := n.opts.Log.With("webhook", h.Metadata.Name)
	switch {
	case result == GivenUp:
		log.Error("an event was given up: its webhook could not be told", "event", id, "error", o.err)
	case result == Gone:
		log.Error(`a webhook is told nothing more, until its resource changes or "teleport-find notify test" succeeds`, "error", o.err)
	case result == Failed && !wasFailing:
		log.Warn("a webhook could not be told, and is tried again", "event", id, "error", o.err)
	case result == Delivered && wasFailing:
		log.Info("a webhook can be told again", "event", id)
	}
}

// postNotice posts an event of the store.
func (n *Notifier) postNotice(ctx context.Context, h *rollout.Notify, id string, now time.Time) (outcome, error) {
	item, err := n.opts.Store.Get(ctx, rollout.NoticePrefix+id)
	if errors.Is(err, store.ErrNotFound) {
		return outcome{result: Lost, err: errors.New("the event has expired")}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	content, err := parseNotice(item)
	if err != nil {
		return outcome{result: Failed, err: err}, nil
	}
	return n.post(ctx, h, id, content, now), nil
}

// state reads the state of a webhook.
func (n *Notifier) state(ctx context.Context, h *rollout.Notify) (state, error) {
	item, err := n.opts.Store.Get(ctx, statePrefix+h.Metadata.Name)
	if errors.Is(err, store.ErrNotFound) {
		return begin(h), nil
	}
	if err != nil {
		return state{}, err
	}
	s, err := parseState(item)
	if err != nil {
		// What cannot be understood is replaced, or the webhook would be silent for ever.
		s = begin(h)
		s.revision = item.Revision
	}
	return s, nil
}

// keep writes the state, if nobody else has meanwhile.
func (n *Notifier) keep(ctx context.Context, name string, s *state) error {
	value, err := json.Marshal(s)
	if err != nil {
		return err
	}
	s.revision, err = n.opts.Store.Put(ctx, statePrefix+name, value, s.revision)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if h, there := n.hooks[name]; there {
		h.state = *s
		n.hooks[name] = h
	}
	return nil
}
