// Package notify posts what happens to the rollout to the webhooks of a store, as Standard
// Webhooks has it (https://www.standardwebhooks.com): signed, at least once, with an id
// that stays the same when an event is posted again.
//
// No event is found by looking at the rollout now and then. The change that causes an event
// writes the event into the store, under rollout.NoticePrefix, so the event is posted however
// short its state has lasted. The events that each webhook waits for are in the store as
// well, with the time of the next attempt: a restart forgets nothing.
//
// Any number of servers may share a store. The one that posts to a webhook holds a lease
// on it, by the store's clock, and writes what came of each post; when it is killed in
// between, another server posts the event again after the lease has run out.
//
// An event that says that a server is blocked may not get into the store, which is away.
// The server posts it by itself then, and keeps the next attempt in memory.
package notify

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// LookEvery is how often a server looks for events that others have written, and for
// attempts that are due.
const LookEvery = 5 * time.Second

// Options are the parts of a Notifier.
type Options struct {
	Store store.Store
	// Server is the name of this server, and Version that of its program.
	Server, Version string
	// Clock measures for how long this server has been blocked.
	Clock func() time.Time
	// Blocked says what keeps this server from moving the rollout.
	Blocked func() []string
	// Delivered is called with the result of each post. Nil: nobody counts them.
	Delivered func(Result)
	// Timeout bounds one post; zero is 10 s.
	Timeout time.Duration
	Log     *slog.Logger
}

// Notifier posts the events of one store.
type Notifier struct {
	opts    Options
	self    string // who holds a lease: another one with each start
	wake    chan struct{}
	notices feed
	blocked blockage
	working sync.WaitGroup

	mu    sync.Mutex
	list  []notice // those of the feed
	hooks map[string]known
	busy  map[string]bool // webhooks that a goroutine of this server is posting to
	// unrecorded is what came of a post, by webhook, where it could not be written yet.
	unrecorded map[string]posted
}

// known is a webhook as it was read last.
type known struct {
	hook     *rollout.Notify
	delivery delivery
}

// New returns a Notifier that does nothing until it is run.
func New(opts Options) *Notifier {
	if opts.Timeout == 0 {
		opts.Timeout = postTime
	}
	if opts.Delivered == nil {
		opts.Delivered = func(Result) {}
	}
	return &Notifier{
		opts: opts, self: opts.Server + "/" + rand.Text(), wake: make(chan struct{}, 1),
		notices: feed{store: opts.Store}, hooks: make(map[string]known), busy: make(map[string]bool),
		unrecorded: make(map[string]posted),
	}
}

// Wake has Run look at once, after a change of the rollout.
func (n *Notifier) Wake() {
	select {
	case n.wake <- struct{}{}:
	default: // it is about to
	}
}

// Run looks whenever it is told to, until ctx ends, and waits for the posts that are under
// way. Errors are logged when they begin and when they are over.
func (n *Notifier) Run(ctx context.Context, ticks <-chan time.Time) {
	defer n.working.Wait()
	failing := false
	for {
		err := n.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			n.opts.Log.Warn("webhooks wait: their events cannot be read", "error", err)
		case err == nil && failing:
			n.opts.Log.Info("the events of webhooks can be read again")
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

// look starts what is due. It waits for the store, and for no receiver.
func (n *Notifier) look(ctx context.Context) error {
	err := n.read(ctx)
	n.lookBlocked(ctx)
	if err != nil {
		return err
	}
	now, err := n.opts.Store.Now(ctx)
	if err != nil {
		return err
	}
	list, hooks := n.known()
	for name, h := range hooks {
		if !h.delivery.stopped(h.hook) && h.delivery.wants(list, now) {
			n.work(name, func() { n.serve(ctx, h.hook) })
		}
	}
	return nil
}

// known returns what was read last.
func (n *Notifier) known() ([]notice, map[string]known) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.list, maps.Clone(n.hooks)
}

// work runs f, unless this server is at work for the webhook already: one that hangs keeps
// nobody but itself.
func (n *Notifier) work(name string, f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.busy[name] {
		return
	}
	n.busy[name] = true
	n.working.Go(func() {
		defer func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.busy, name)
		}()
		f()
	})
}

// read reads the webhooks, their states and new events.
func (n *Notifier) read(ctx context.Context) error {
	items, _, err := n.opts.Store.List(ctx, rollout.NotifyKey(""))
	if err != nil {
		return err
	}
	states, _, err := n.opts.Store.List(ctx, statePrefix)
	if err != nil {
		return err
	}
	if err := n.notices.read(ctx); err != nil {
		return err
	}
	hooks := make(map[string]known)
	for _, item := range items {
		// One that only a newer server understands is that server's.
		if h, err := parseHook(item); err == nil {
			hooks[h.Metadata.Name] = known{h, begin(h)}
		}
	}
	for _, item := range states {
		name := item.Key[len(statePrefix):]
		h, there := hooks[name]
		if !there {
			n.forget(ctx, items, item)
			continue
		}
		if h.delivery, err = parseDelivery(item); err != nil {
			h.delivery = begin(h.hook)
		}
		hooks[name] = h
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hooks, n.list = hooks, n.notices.list
	return nil
}

// forget removes the state of a webhook that was removed. One of the same name begins
// without it.
func (n *Notifier) forget(ctx context.Context, hooks []store.Item, delivery store.Item) {
	key := rollout.NotifyKey(delivery.Key[len(statePrefix):])
	if slices.ContainsFunc(hooks, func(i store.Item) bool { return i.Key == key }) {
		return
	}
	// Another server may be faster.
	_ = n.opts.Store.Delete(ctx, delivery.Key, delivery.Revision)
}
