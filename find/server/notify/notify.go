// Package notify posts the events of the rollout to webhooks, in the form of Standard Webhooks
// (https://www.standardwebhooks.com).
//
// A change of the rollout and its events are one write to the store, so there is no event without its change. The
// server that made the change posts the events: three times at most, within rollout.NoticeLife. When a receiver has
// taken an event, the server writes a mark beside the event. A server that starts posts the events of the store that
// have no mark. A receiver may get an event again, with the same id: if a server was killed between the post and
// the mark, or if one server starts while another one posts.
//
// The event that a server is blocked is not in the store, which is usually away then. The blocked server posts it
// from memory.
package notify

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// LookEvery is how often a server reads the webhooks and looks for attempts that are due.
const LookEvery = 5 * time.Second

// blockedFor is how long a server must be blocked before it posts the event: a restart of the store is no news.
const blockedFor = time.Minute

// retryAfter are the waits after the first and the second attempt. With them, the third attempt is within
// rollout.NoticeLife.
var retryAfter = []time.Duration{time.Minute, 8 * time.Minute}

// Options are the settings of a Notifier.
type Options struct {
	Store store.Store
	// Server is the name of this server, and Version the version of its program.
	Server, Version string
	Clock           func() time.Time
	// Blocked says what keeps this server from moving the rollout.
	Blocked func() []string
	// Delivered is called with the result of each post; may be nil.
	Delivered func(Result)
	// Timeout bounds one post; zero is 10 s.
	Timeout time.Duration
	Log     *slog.Logger
}

// Notifier posts the events of one server.
type Notifier struct {
	opts    Options
	wake    chan struct{}
	working sync.WaitGroup

	mu     sync.Mutex
	read   bool             // the webhooks have been read at least once
	hooks  map[string]*hook // by name, as they were read last
	events []rollout.Notice // for which no webhook waits yet
	stored bool             // events without a mark are to be read from the store

	blockedSince time.Time // zero: the server is not blocked
	blockedTold  bool
}

// hook is a webhook and the state of this server's posts to it.
type hook struct {
	*rollout.Notify
	waiting []*waiting // the oldest first
	busy    bool       // a goroutine posts to it

	failing     time.Time // since when posts fail
	err         error     // of the last attempt, while posts fail
	givenUp     int
	lastGivenUp time.Time
}

// waiting is an event that a webhook has not got yet.
type waiting struct {
	rollout.Notice
	attempts int
	next     time.Time // zero: at once
}

// New returns a Notifier that does nothing until it is run.
func New(opts Options) *Notifier {
	if opts.Timeout == 0 {
		opts.Timeout = postTime
	}
	if opts.Delivered == nil {
		opts.Delivered = func(Result) {}
	}
	return &Notifier{opts: opts, wake: make(chan struct{}, 1), hooks: make(map[string]*hook), stored: true}
}

// Post takes the events of a change that this server made.
func (n *Notifier) Post(events []rollout.Notice) {
	n.mu.Lock()
	n.events = append(n.events, events...)
	n.mu.Unlock()
	n.wakeUp()
}

// PostStored posts the events of the store that have no mark. It is for a change of which nobody knows whether it
// was written: if it was, its events are in the store.
func (n *Notifier) PostStored() {
	n.mu.Lock()
	n.stored = true
	n.mu.Unlock()
	n.wakeUp()
}

// wakeUp has Run look at once.
func (n *Notifier) wakeUp() {
	select {
	case n.wake <- struct{}{}:
	default: // Run is about to look
	}
}

// Run posts until ctx ends, and waits for the posts that are under way. Errors of the store are logged when they
// begin and when they are over.
func (n *Notifier) Run(ctx context.Context, ticks <-chan time.Time) {
	defer n.working.Wait()
	failing := false
	for {
		err := n.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			n.opts.Log.Warn("webhooks or their events cannot be read: events go to the webhooks that were read last", "error", err)
		case err == nil && failing:
			n.opts.Log.Info("webhooks and their events can be read again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		case <-n.wake:
		}
	}
}

// look starts the posts that are due. It waits for the store, and for no receiver.
func (n *Notifier) look(ctx context.Context) error {
	err := n.readHooks(ctx)
	if err == nil {
		err = n.readStored(ctx)
	}
	now, blocked := n.opts.Clock(), n.opts.Blocked()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookBlocked(blocked, now)
	if n.read {
		for _, e := range n.events {
			n.distribute(e, nil)
		}
		n.events = nil
	}
	for _, h := range n.hooks {
		if !h.busy && h.due(now) != nil {
			h.busy = true
			n.working.Go(func() { n.serve(ctx, h) })
		}
	}
	return err
}

// readHooks reads the webhooks. The secret and the address of a new or changed webhook are tried at once: nobody
// should learn from the first halt that they cannot be read.
func (n *Notifier) readHooks(ctx context.Context) error {
	items, _, err := n.opts.Store.List(ctx, rollout.NotifyKey(""))
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	hooks := make(map[string]*hook)
	for _, item := range items {
		resource, err := parseHook(item)
		if err != nil {
			continue // a newer server understands it, and posts to it
		}
		name := resource.Metadata.Name
		h, known := n.hooks[name]
		if !known {
			h = &hook{}
		}
		hooks[name] = h
		if known && h.Metadata.Revision == resource.Metadata.Revision {
			continue
		}
		h.Notify = resource
		if _, err := n.sender(resource); err != nil {
			h.fails(err, n.opts.Clock())
			n.opts.Log.Error("no event can be posted to a webhook; the server answers hosts all the same", "webhook", name, "error", err)
		} else {
			h.failing, h.err = time.Time{}, nil // an earlier version of the resource failed
		}
	}
	n.hooks, n.read = hooks, true
	return nil
}

// readStored takes the events of the store that have no mark, if they are to be read.
func (n *Notifier) readStored(ctx context.Context) error {
	n.mu.Lock()
	due := n.stored
	n.stored = false
	n.mu.Unlock()
	if !due {
		return nil
	}
	items, _, err := n.opts.Store.List(ctx, rollout.NoticePrefix)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.stored = true
		return err
	}
	marks := make(map[string]bool)
	for _, item := range items {
		marks[item.Key] = true
	}
	for _, item := range items {
		e, err := parseEvent(item)
		if err != nil || n.opts.Clock().Sub(e.Time) >= rollout.NoticeLife {
			continue // a mark, or too old
		}
		n.distribute(e, marks)
	}
	return nil
}

// distribute has each webhook that wants an event wait for it, unless it has a mark.
func (n *Notifier) distribute(e rollout.Notice, marks map[string]bool) {
	for name, h := range n.hooks {
		waits := slices.ContainsFunc(h.waiting, func(w *waiting) bool { return w.ID == e.ID })
		if slices.Contains(h.Spec.Kinds, e.Kind) && !waits && !marks[markKey(e, name)] {
			h.waiting = append(h.waiting, &waiting{Notice: e})
		}
	}
}

// lookBlocked makes the event that this server is blocked, once for each time that it is.
func (n *Notifier) lookBlocked(lines []string, now time.Time) {
	switch {
	case len(lines) == 0:
		n.blockedSince, n.blockedTold = time.Time{}, false
	case n.blockedSince.IsZero():
		n.blockedSince = now
	case !n.blockedTold && now.Sub(n.blockedSince) >= blockedFor:
		n.blockedTold = true
		n.events = append(n.events, rollout.Notice{
			ID: rand.Text(), Kind: rollout.NoticeBlocked, Time: now.UTC(), Server: n.opts.Server, Blocked: lines,
		})
	}
}
