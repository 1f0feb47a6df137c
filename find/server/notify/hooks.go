package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// Hook is the state of a webhook, as far as this server posts to it.
type Hook struct {
	Name        string
	Failing     time.Time // since when posts fail
	Error       string    // of the last attempt
	GivenUp     int       // events
	LastGivenUp time.Time
}

// Hooks returns all webhooks, by name, as they were read last.
func (n *Notifier) Hooks() (list []Hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, h := range n.hooks {
		one := Hook{Name: name, Failing: h.failing, GivenUp: h.givenUp, LastGivenUp: h.lastGivenUp}
		if h.err != nil {
			one.Error = h.err.Error()
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Hook) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// givenUpFor is how long Trouble lists events that were not delivered.
const givenUpFor = 7 * 24 * time.Hour

// Trouble lists the webhooks that miss events, and why.
func (n *Notifier) Trouble() (lines []string) {
	now := n.opts.Clock()
	for _, h := range n.Hooks() {
		begin := "webhook " + h.Name + ": "
		if !h.Failing.IsZero() {
			lines = append(lines, begin+fmt.Sprintf(`no event can be delivered since %s: %s; after the fix run "teleport-find notify test %s"`,
				rollout.Clock(h.Failing), h.Error, h.Name))
		}
		if h.GivenUp > 0 && now.Sub(h.LastGivenUp) < givenUpFor {
			lines = append(lines, begin+fmt.Sprintf("events that were not delivered: %d, the last at %s", h.GivenUp, rollout.Clock(h.LastGivenUp)))
		}
	}
	return lines
}

// Test posts a test event to a webhook, once and from this server. The error is store.ErrNotFound if there is no
// webhook of the name.
func (n *Notifier) Test(ctx context.Context, name string) error {
	item, err := n.opts.Store.Get(ctx, rollout.NotifyKey(name))
	if err != nil {
		return err
	}
	resource, err := parseHook(item)
	if err != nil {
		return err
	}
	now := n.opts.Clock()
	e := rollout.Notice{ID: rand.Text(), Kind: testKind, Time: now, Server: n.opts.Server}
	o := n.post(ctx, resource, e, now)
	if o.result != Delivered {
		return &UndeliveredError{o.err}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if h, there := n.hooks[name]; there {
		h.succeeds()
	}
	return nil
}

// UndeliveredError says why a receiver has not taken an event.
type UndeliveredError struct{ Err error }

func (e *UndeliveredError) Error() string {
	return "the test event was not delivered: " + e.Err.Error()
}

func (e *UndeliveredError) Unwrap() error { return e.Err }
