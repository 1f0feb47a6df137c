package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// Hook is the state of a webhook, as far as this server posts to it.
type Hook struct {
	Name    string
	Address string // without secret parts
	Kinds   []rollout.NoticeKind
	Waiting int // events
	// Delivered is the time of the last delivery. Failing is since when posts fail.
	Delivered, Failing time.Time
	Error              string    // of the last attempt
	Next               time.Time // the next attempt; zero for none
	GivenUp            int
	LastGivenUp        time.Time
}

// Hooks returns all webhooks, by name, as they were read last.
func (n *Notifier) Hooks() (list []Hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, h := range n.hooks {
		one := Hook{
			Name: name, Address: shown(h.Notify), Kinds: h.Spec.Kinds, Waiting: len(h.waiting), Delivered: h.delivered,
			Failing: h.failing, GivenUp: h.givenUp, LastGivenUp: h.lastGivenUp,
		}
		if h.err != nil {
			one.Error = h.err.Error()
		}
		for _, w := range h.waiting {
			if one.Next.IsZero() || w.next.Before(one.Next) {
				one.Next = w.next
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Hook) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// shown returns the scheme and the host of a URL, or the name of its file.
func shown(h *rollout.Notify) string {
	u, err := url.Parse(h.Spec.URL)
	if h.Spec.URL == "" || err != nil {
		return "(" + h.Spec.URLFile + ")"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
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
		h.succeeds(now)
	}
	return nil
}

// UndeliveredError says why a receiver has not taken an event.
type UndeliveredError struct{ Err error }

func (e *UndeliveredError) Error() string {
	return "the test event was not delivered: " + e.Err.Error()
}

func (e *UndeliveredError) Unwrap() error { return e.Err }
