package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// Hook is how a webhook does.
type Hook struct {
	Name    string
	Address string // without what may be secret
	Kinds   []rollout.NoticeKind
	Waiting int // events
	// Delivered is when an event was delivered last, and Failing since when none was.
	Delivered, Failing time.Time
	Error              string    // of the last attempt
	Next               time.Time // the next attempt; zero for none
	Gone               time.Time // when the receiver said that it wants nothing more
	GivenUp            int
	LastGivenUp        time.Time
}

// Hooks returns all webhooks, by name, as they were read last.
func (n *Notifier) Hooks() (list []Hook) {
	_, hooks := n.known()
	for name, h := range hooks {
		s := h.delivery
		one := Hook{
			Name: name, Address: shown(h.hook), Kinds: h.hook.Spec.Kinds, Waiting: len(s.Waiting), Delivered: s.Delivered,
			Failing: s.Failing, Error: s.Error, GivenUp: s.GivenUp, LastGivenUp: s.LastGivenUp,
		}
		if s.stopped(h.hook) {
			one.Gone = s.Gone
		}
		for _, w := range s.Waiting {
			if one.Next.IsZero() || w.Next.Before(one.Next) {
				one.Next = w.Next
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Hook) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// shown is the scheme and the host of a URL, or the name of its file.
func shown(h *rollout.Notify) string {
	u, err := url.Parse(h.Spec.URL)
	if h.Spec.URL == "" || err != nil {
		return "(" + h.Spec.URLFile + ")"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// givenUpFor is how long Trouble lists events that were given up.
const givenUpFor = 7 * 24 * time.Hour

// Trouble lists the webhooks that miss events, and why.
func (n *Notifier) Trouble() (lines []string) {
	now := n.opts.Clock()
	for _, h := range n.Hooks() {
		begin := "webhook " + h.Name + ": "
		switch {
		case !h.Gone.IsZero():
			lines = append(lines, begin+fmt.Sprintf(
				`the receiver answered 410 (gone) at %s and is told nothing more: change or remove %s, or run "teleport-find notify test %s"`,
				rollout.Clock(h.Gone), rollout.NotifyKey(h.Name), h.Name))
		case !h.Failing.IsZero():
			lines = append(lines, begin+fmt.Sprintf("no event was delivered since %s, %d wait: %s", rollout.Clock(h.Failing), h.Waiting, h.Error))
		}
		if h.GivenUp > 0 && now.Sub(h.LastGivenUp) < givenUpFor {
			lines = append(lines, begin+fmt.Sprintf("events were given up: %d, the last at %s", h.GivenUp, rollout.Clock(h.LastGivenUp)))
		}
	}
	return lines
}

// Test posts a test event to a webhook, once and from this server. A receiver that had
// refused all further events gets them again if it accepts the test event.
// The error is store.ErrNotFound if there is no webhook of the name.
func (n *Notifier) Test(ctx context.Context, name string) error {
	item, err := n.opts.Store.Get(ctx, rollout.NotifyKey(name))
	if err != nil {
		return err
	}
	h, err := parseHook(item)
	if err != nil {
		return err
	}
	now, err := n.opts.Store.Now(ctx)
	if err != nil {
		return err
	}
	o := n.post(ctx, h, rand.Text(), rollout.Notice{Kind: testKind, Time: now, Server: n.opts.Server}, now)
	n.opts.Delivered(o.result)
	if o.result != Delivered {
		return &UndeliveredError{o.err}
	}
	s, err := n.delivery(ctx, h)
	if err != nil || s.Gone.IsZero() {
		return nil // the state of what is told besides is another matter
	}
	s.Gone, s.GoneAt, s.Error = time.Time{}, 0, ""
	if err := n.keep(ctx, name, &s); err != nil {
		if _, conflict := errors.AsType[*store.ConflictError](err); !conflict {
			return err
		}
	}
	return nil
}

// UndeliveredError is why a receiver has not taken an event.
type UndeliveredError struct{ Err error }

func (e *UndeliveredError) Error() string { return "the webhook was not told: " + e.Err.Error() }

func (e *UndeliveredError) Unwrap() error { return e.Err }
