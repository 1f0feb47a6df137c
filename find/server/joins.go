package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/store"
)

const (
	// UsualHosts is how many hosts may have joined by a token for which nobody has said how many.
	UsualHosts = 100_000
	// MaxJoins is how many hosts may join by one token in a minute; those beyond come again with their next
	// poll.
	MaxJoins = 1000
)

// FullError is the error of a join for which there is no room. Nothing was written.
type FullError struct{ why string }

func (e *FullError) Error() string { return e.why }

// errJoins is the error of a join by a token that too many join by.
var errJoins = fmt.Errorf("more than %d hosts join by this token in a minute: nothing was changed; join again later", MaxJoins)

// joinRate counts the joins of the minute, by token.
type joinRate struct {
	minute time.Time
	count  map[string]int
}

func (r *joinRate) note(token string, now time.Time) {
	if minute := now.Truncate(time.Minute); !r.minute.Equal(minute) {
		r.minute, r.count = minute, make(map[string]int)
	}
	r.count[token]++
}

func (r *joinRate) reached(token string, now time.Time) bool {
	return r.minute.Equal(now.Truncate(time.Minute)) && r.count[token] >= MaxJoins
}

// mayJoin returns why there is no room for a host, nil where there is. known is a host that has joined before,
// same one that has done so by this token.
func (f *Fleet) mayJoin(name string, t token, known, same bool, now time.Time) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	joined := f.table.JoinedBy(name)
	switch {
	case !known && f.table.Len() >= MaxHosts:
		return &FullError{fmt.Sprintf("%d hosts have joined, and there is no room for more: nothing was changed", f.table.Len())}
	case t.MaxHosts > 0 && joined >= t.MaxHosts && !(known && same):
		return &FullError{fmt.Sprintf("the join token %s is for %d hosts, and as many have joined by it: nothing was changed; make another one (\"teleport-find tokens add NAME --hosts N\")", name, t.MaxHosts)}
	case f.keep.joined.reached(name, now):
		return errJoins
	}
	return nil
}

// removedBefore fills in what is left in the store of a host that people have removed, and its revision.
func (f *Fleet) removedBefore(ctx context.Context, e *fleet.Entry) error {
	item, err := f.opts.Store.Get(ctx, hostKey(e.ID))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	left, removed, err := decodeHost(item)
	if err != nil || !removed {
		return err // what has joined at another server meanwhile is a conflict
	}
	e.Failed, e.Revision = left.Failed, left.Revision
	return nil
}
