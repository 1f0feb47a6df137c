package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/store"
)

// seen holds everything from which a change is computed.
type seen struct {
	config   *rollout.Config
	version  *rollout.Version
	rollout  *rollout.Rollout
	counts   rollout.Counts
	revision map[string]store.Revision
	of       store.Identity // of the revisions
	now      time.Time
}

// look calls f with the present state. The functions of the counts are valid until f returns.
func (e *Engine) look(ctx context.Context, f func(seen)) error {
	of, err := e.opts.Store.Identity(ctx)
	if err != nil {
		return err
	}
	n, err := answers.ReadResources(ctx, e.opts.Store)
	if err != nil {
		return err
	}
	s := seen{of: of, config: n.Config, version: n.Version, rollout: n.Rollout, revision: n.Revisions, now: e.opts.Clock()}
	if s.rollout == nil {
		f(s)
		return nil
	}
	plans, _, err := e.opts.Plans.Load(ctx, s.rollout)
	if err != nil {
		return err
	}
	e.opts.Inventory.Counting(s.rollout, plans, s.now, func(n rollout.Counts) {
		s.counts = n
		f(s)
	})
	e.setCounts(s.counts.Detached())
	return nil
}

func (e *Engine) setCounts(n rollout.Counts) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Counts = n
	if waiting := !n.Complete; waiting != e.status.Waiting {
		e.status.Waiting = waiting
		if waiting {
			e.opts.Log.Info("no group goes on until hosts have had time to report to this server", "time", rollout.PresentFor)
		} else {
			e.opts.Log.Info("hosts have had time to report, and groups go on")
		}
	}
}

// apply computes a change from the present state and writes it if that state has not
// changed; else it starts over. step also returns the change's words for the history.
func (e *Engine) apply(ctx context.Context, who, why string, step func(seen) (rollout.Result, string, error)) (changed bool, err error) {
	for attempt := 1; ; attempt++ {
		var s seen
		var result rollout.Result
		var what string
		var refused error
		err := e.look(ctx, func(now seen) {
			s = now
			result, what, refused = step(now)
		})
		if err == nil {
			err = refused
		}
		if err != nil || result.Rollout == s.rollout {
			return false, err
		}
		audit := store.Audit{Time: s.now, Who: who, What: what, Why: why}
		if what == "" {
			audit = store.Audit{} // counts and the progress of plans are nobody's decision
		}
		err = e.write(ctx, s, result, audit)
		_, conflict := errors.AsType[*store.ConflictError](err)
		late := errors.Is(err, errOld) || errors.Is(err, store.ErrLate) || errors.Is(err, store.ErrReplaced)
		if (conflict || late) && attempt < tickAttempts {
			continue
		}
		if err != nil {
			return false, err
		}
		for _, step := range result.Steps {
			e.opts.Log.Info("rollout", "group", step.Group, "from", step.From, "to", step.To, "halted", step.Halted, "reason", step.Reason,
				"message", step.Message, "by", who)
		}
		e.mu.Lock()
		e.status.LastWrite = s.now
		e.mu.Unlock()
		// It is written. If this read fails, the store's watcher tries again.
		_ = e.opts.Answers.Refresh(ctx)
		return true, nil
	}
}

// write puts the rollout and its plans into the store, if everything that they were
// computed from is unchanged.
func (e *Engine) write(ctx context.Context, s seen, result rollout.Result, audit store.Audit) (err error) {
	next := *result.Rollout
	next.Metadata.Revision = 0
	value, err := rollout.JSON(&next)
	if err != nil {
		return err
	}
	change := store.Change{Audit: audit, Deadline: e.deadline(s.now), Of: s.of, Writes: []store.Write{
		{Key: rollout.KindConfig, Based: s.revision[rollout.KindConfig], Do: store.Keep},
		{Key: rollout.KindVersion, Based: s.revision[rollout.KindVersion], Do: store.Keep},
		{Key: rollout.KindRollout, Value: value, Based: s.revision[rollout.KindRollout]},
	}}
	events, kept, err := eventsOf(s, &next, audit)
	if err != nil {
		return err
	}
	change.Writes = append(change.Writes, kept...)
	plans := e.opts.Plans
	var ready []*answers.Prepared
	defer func() {
		for _, p := range ready {
			if err != nil {
				err = errors.Join(err, plans.Drop(p))
			} else if old := plans.DropOld(ctx, p); old != nil {
				e.opts.Log.Warn("pages that nobody needs stay until they expire", "error", old)
			}
		}
	}()
	for _, plan := range result.Plans {
		p, err := plans.Prepare(ctx, plan, s.now)
		if err != nil {
			return err
		}
		ready = append(ready, p)
		change.Writes = append(change.Writes, p.Head)
	}
	if e.isOld(s) {
		return errOld
	}
	_, err = e.opts.Store.Commit(ctx, change)
	e.post(events, err)
	if err != nil {
		return err
	}
	for _, p := range ready {
		plans.Keep(&next, p)
	}
	return nil
}

// post hands over the events of a change whose commit ended with an error, or with nil.
func (e *Engine) post(events []rollout.Notice, err error) {
	if e.opts.Notifier == nil || len(events) == 0 {
		return
	}
	if _, unknown := errors.AsType[*store.UnknownError](err); unknown {
		e.opts.Notifier.PostStored()
	} else if err == nil {
		e.opts.Notifier.Post(events)
	}
}

// maxAge is the greatest age of counts at a write that follows from them.
const maxAge = 30 * time.Second

// errOld says that this process was paused, or the store was slow.
var errOld = fmt.Errorf("what hosts report was counted more than %s ago, and nothing follows from it", maxAge)

// isOld reports whether the counts are older than maxAge by either clock. The monotonic clock stands still while the
// machine is suspended.
func (e *Engine) isOld(s seen) bool {
	now := e.opts.Clock()
	return max(now.Sub(s.now), now.Round(0).Sub(s.now.Round(0))) > maxAge
}

// purge removes expired items, now and then.
func (e *Engine) purge(ctx context.Context, now time.Time) error {
	e.mu.Lock()
	due := now.Sub(e.purged) >= purgeEvery
	if due {
		e.purged = now
	}
	e.mu.Unlock()
	if !due {
		return nil
	}
	// A server whose clock is ahead must not remove items that others need.
	at, err := e.opts.Store.Now(ctx)
	if err != nil {
		return err
	}
	if at.Before(now) {
		now = at
	}
	removed, err := e.opts.Store.Purge(ctx, now)
	if removed > 0 {
		e.opts.Log.Info("removed what has expired", "items", removed)
	}
	return err
}

// maxDescription bounds a record of the history.
const maxDescription = 2000

// describe names the steps of the engine in a line; empty for none.
func describe(steps []rollout.Step) string {
	var words []string
	for _, s := range steps {
		switch {
		case s.Group == "":
			words = append(words, fmt.Sprintf("a new rollout (%s)", s.Reason))
		case s.Halted:
			words = append(words, fmt.Sprintf("%s halted (%s: %s)", s.Group, s.Reason, s.Message))
		default:
			words = append(words, fmt.Sprintf("%s %s → %s (%s)", s.Group, s.From, s.To, s.Reason))
		}
	}
	text := strings.Join(words, ", ")
	if len(text) > maxDescription {
		text = strings.ToValidUTF8(text[:maxDescription], "") + "…"
	}
	return text
}
