package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

const (
	// releaseTime is how long a post that is under way goes on when the server is being
	// stopped.
	releaseTime = 3 * time.Second
	// recordTime is how long the write of a result may take then. With releaseTime before
	// it, it ends within the lease.
	recordTime = 15 * time.Second
)

// posted is an event that was posted, with what came of it.
type posted struct {
	id      string
	outcome outcome
}

// serve posts what is due for a webhook, one event after another, unless another server
// does. What cannot be read or written is left for the next look.
func (n *Notifier) serve(ctx context.Context, h *rollout.Notify) {
	for ctx.Err() == nil {
		again, err := n.serveOne(ctx, h)
		if err != nil {
			if _, conflict := errors.AsType[*store.ConflictError](err); !conflict {
				n.opts.Log.Warn("the state of a webhook cannot be kept, and its events wait", "webhook", h.Metadata.Name, "error", err)
			}
			return
		}
		if !again {
			return
		}
	}
}

// serveOne posts one event, and reports whether there may be another one. A stop of the
// server interrupts none of its writes: an interrupted claim would delay the event by a
// lease, and an interrupted record would repeat it.
func (n *Notifier) serveOne(ctx context.Context, h *rollout.Notify) (again bool, err error) {
	late, stop := outlive(ctx, releaseTime)
	defer stop()
	s, now, err := n.turn(late, h)
	if err != nil || s == nil {
		return false, err
	}
	if p, there := n.unrecordedOf(h); there {
		return n.record(ctx, h, s, p)
	}
	id, err := n.claim(late, h, s, now)
	if err != nil || id == "" {
		return false, err
	}
	o, err := n.postNotice(late, h, id, now)
	if err != nil {
		return false, err
	}
	if o.result != Delivered && late.Err() != nil {
		return false, n.release(ctx, h, s) // the stop cut the post: it says nothing of the receiver
	}
	return n.record(ctx, h, s, posted{id, o})
}

// turn returns the state of a webhook if it is this server's turn to post to it, else nil.
func (n *Notifier) turn(ctx context.Context, h *rollout.Notify) (*delivery, time.Time, error) {
	s, err := n.delivery(ctx, h)
	if err != nil || s.stopped(h) {
		return nil, time.Time{}, err
	}
	now, err := n.opts.Store.Now(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	if s.Lease.By != n.self && now.Before(s.Lease.Until) {
		return nil, time.Time{}, nil // another server does, or has just been killed
	}
	return &s, now, nil
}

// claim takes the lease for the oldest event that is due, and returns its id. Without such
// an event, it returns no id and gives up the lease.
func (n *Notifier) claim(ctx context.Context, h *rollout.Notify, s *delivery, now time.Time) (id string, err error) {
	cursor := s.Cursor
	list, _ := n.known()
	if dropped := s.take(list, h, now); dropped > 0 {
		n.opts.Log.Error("too many events wait for a webhook, and the oldest are given up",
			"webhook", h.Metadata.Name, "events", dropped)
	}
	at := s.due(now)
	switch {
	case at >= 0:
		id, s.Lease = s.Waiting[at].ID, lease{n.self, now.Add(leaseTime)}
	case s.Cursor == cursor && s.Lease.By == "":
		return "", nil
	default:
		s.Lease = lease{}
	}
	return id, n.keep(ctx, h.Metadata.Name, s)
}

// record writes what came of a post. If it cannot be written, this server remembers it and
// writes it with its next look, within the lease: an event that the receiver has taken is
// posted again only after a kill, or if the store fails until the lease or the server ends.
func (n *Notifier) record(ctx context.Context, h *rollout.Notify, s *delivery, p posted) (again bool, err error) {
	kept, stop := outlive(ctx, recordTime)
	defer stop()
	for {
		now, err := n.opts.Store.Now(kept)
		if err != nil {
			return false, n.remember(h, p, err)
		}
		wasFailing := !s.Failing.IsZero()
		mine := s.Lease.By == n.self
		open := mine || s.waitsFor(p.id) // else another server has posted it, or the webhook was removed
		result := s.record(p.id, p.outcome, h, now)
		again = s.due(now) >= 0 && ctx.Err() == nil
		if mine && !again {
			s.Lease = lease{}
		}
		if open {
			err = n.keep(kept, h.Metadata.Name, s)
		}
		if err == nil {
			n.forgetUnrecorded(h)
			n.logResult(h, p, result, wasFailing)
			return again, nil
		}
		if _, conflict := errors.AsType[*store.ConflictError](err); !conflict {
			return false, n.remember(h, p, err)
		}
		// Somebody has written the state meanwhile, such as "notify test".
		read, err := n.delivery(kept, h)
		if err != nil {
			return false, n.remember(h, p, err)
		}
		s = &read
	}
}

// release gives up the lease after a post that was cut.
func (n *Notifier) release(ctx context.Context, h *rollout.Notify, s *delivery) error {
	kept, stop := outlive(ctx, recordTime)
	defer stop()
	s.Lease = lease{}
	return n.keep(kept, h.Metadata.Name, s)
}

func (n *Notifier) unrecordedOf(h *rollout.Notify) (p posted, there bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, there = n.unrecorded[h.Metadata.Name]
	return p, there
}

// remember keeps what could not be written because of an error, which it returns.
func (n *Notifier) remember(h *rollout.Notify, p posted, err error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unrecorded[h.Metadata.Name] = p
	return fmt.Errorf("record the result of a post: %w", err)
}

func (n *Notifier) forgetUnrecorded(h *rollout.Notify) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.unrecorded, h.Metadata.Name)
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

// logResult counts the result of a post, and logs it if the webhook begins or ceases to fail.
func (n *Notifier) logResult(h *rollout.Notify, p posted, result Result, wasFailing bool) {
	n.opts.Delivered(result)
	log := n.opts.Log.With("webhook", h.Metadata.Name)
	switch {
	case result == GivenUp:
		log.Error("an event was given up: its webhook could not be told", "event", p.id, "error", p.outcome.err)
	case result == Gone:
		log.Error(`a webhook is told nothing more, until its resource changes or "teleport-find notify test" succeeds`, "error", p.outcome.err)
	case result == Failed && !wasFailing:
		log.Warn("a webhook could not be told, and is tried again", "event", p.id, "error", p.outcome.err)
	case result == Delivered && wasFailing:
		log.Info("a webhook can be told again", "event", p.id)
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

// delivery reads the state of a webhook.
func (n *Notifier) delivery(ctx context.Context, h *rollout.Notify) (delivery, error) {
	item, err := n.opts.Store.Get(ctx, statePrefix+h.Metadata.Name)
	if errors.Is(err, store.ErrNotFound) {
		return begin(h), nil
	}
	if err != nil {
		return delivery{}, err
	}
	s, err := parseDelivery(item)
	if err != nil {
		// What cannot be understood is replaced, or the webhook would be silent for ever.
		s = begin(h)
		s.revision = item.Revision
	}
	return s, nil
}

// keep writes the state, if nobody else has meanwhile.
func (n *Notifier) keep(ctx context.Context, name string, s *delivery) error {
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
		h.delivery = *s
		n.hooks[name] = h
	}
	return nil
}
