package notify

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// blockedFor is how long a server must be blocked before it posts the event: nobody needs
// to hear of a store that was restarted.
const blockedFor = time.Minute

// blockage is the event that says that this server is blocked. It goes into the store if
// that can be written. If not, which is the usual reason, this server posts it by itself.
type blockage struct {
	since    time.Time // zero: it is not blocked
	id       string
	notice   *rollout.Notice // nil: there is nothing to tell
	recorded bool

	mu    sync.Mutex
	posts map[string]*direct // by webhook
}

// direct is how far the server is with a webhook.
type direct struct {
	over     bool
	attempts int
	next     time.Time
}

// lookBlocked begins the event, and gets it to those who want it.
func (n *Notifier) lookBlocked(ctx context.Context) {
	b, now, lines := &n.blocked, n.opts.Clock(), n.opts.Blocked()
	switch {
	case len(lines) == 0:
		b.since = time.Time{}
	case b.since.IsZero():
		b.since = now
	}
	hooks := n.hooksFor(rollout.NoticeBlocked)
	if b.notice == nil {
		if len(lines) == 0 || now.Sub(b.since) < blockedFor || len(hooks) == 0 {
			return
		}
		b.id, b.recorded, b.posts = rand.Text(), false, make(map[string]*direct)
		b.notice = &rollout.Notice{Kind: rollout.NoticeBlocked, Time: now.UTC(), Server: n.opts.Server, Blocked: lines}
	}
	given := b.recorded || b.over(hooks)
	if given && len(lines) == 0 {
		b.notice = nil
	}
	if given {
		return
	}
	if n.recordBlocked(ctx) == nil {
		b.recorded = true
		n.Wake()
		return
	}
	for _, h := range hooks {
		if d := b.due(h.Metadata.Name, now); d != nil {
			id, content := b.id, *b.notice
			n.work("blocked/"+h.Metadata.Name, func() { n.postBlocked(ctx, h, d, id, content) })
		}
	}
}

// hooksFor are the webhooks that want a kind, as they were read last.
func (n *Notifier) hooksFor(kind rollout.NoticeKind) (list []*rollout.Notify) {
	_, hooks := n.known()
	for _, h := range hooks {
		if slices.Contains(h.hook.Spec.Kinds, kind) && !h.delivery.stopped(h.hook) {
			list = append(list, h.hook)
		}
	}
	return list
}

func (n *Notifier) recordBlocked(ctx context.Context) error {
	value, err := json.Marshal(n.blocked.notice)
	if err != nil {
		return err
	}
	_, err = n.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{{
		Key: rollout.NoticePrefix + n.blocked.id, Value: value, Expires: n.opts.Clock().Add(rollout.NoticeLife),
	}}})
	return err
}

func (n *Notifier) postBlocked(ctx context.Context, h *rollout.Notify, d *direct, id string, content rollout.Notice) {
	o := n.post(ctx, h, id, content, n.opts.Clock())
	if ctx.Err() != nil {
		return
	}
	n.opts.Delivered(o.result)
	n.blocked.mu.Lock()
	defer n.blocked.mu.Unlock()
	d.over = o.result != Failed
	if d.over {
		return
	}
	if d.attempts == 0 {
		n.opts.Log.Warn("a webhook could not be told that this server is blocked, and is tried again", "webhook", h.Metadata.Name, "error", o.err)
	}
	d.attempts++
	d.next = n.opts.Clock().Add(max(backOff(d.attempts), o.after))
}

// due returns how far the server is with a webhook that is to be told now, or nil.
func (b *blockage) due(name string, now time.Time) *direct {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.posts[name]
	if d == nil {
		d = &direct{}
		b.posts[name] = d
	}
	if d.over || d.next.After(now) {
		return nil
	}
	return d
}

// over reports whether all of the webhooks were told.
func (b *blockage) over(hooks []*rollout.Notify) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(hooks, func(h *rollout.Notify) bool {
		d := b.posts[h.Metadata.Name]
		return d == nil || !d.over
	})
}
