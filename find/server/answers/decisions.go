package answers

import (
	"context"
	"slices"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

const (
	// EngineName is who makes the engine's changes, in the history.
	EngineName = "engine"
	// storeName is who makes changes that a store has lost, and failovers.
	storeName = "store"
)

// maxDecisions is how many records of the history are searched.
const maxDecisions = 1000

// decisions are the records of a store's history, the newest first. They say what of earlier revisions a failover has left,
// and what people have decided that a server has not read. What they do not say has not been decided: to stop too much is
// what people can undo.
type decisions []store.HistoryEntry

func decisionsIn(ctx context.Context, s store.Store) (decisions, error) {
	return s.History(ctx, maxDecisions)
}

// asOf is what a decision is later than.
type asOf struct {
	read store.Revision // the last one that a server has read of the store
	from time.Time      // later, or at this time; zero is any time
}

func (a asOf) precedes(e store.HistoryEntry) bool { return e.To > a.read && !e.Time.Before(a.from) }

// kept reports whether a store has what was written at a revision of an earlier epoch: the failover that ended the epoch
// says so.
func (d decisions) kept(written store.Revision) bool {
	return slices.ContainsFunc(d, func(e store.HistoryEntry) bool {
		return e.Key == store.FailoverKey && epochOf(e.From) == epochOf(written) && written <= e.From
	})
}

func epochOf(r store.Revision) store.Revision { return r / store.EpochStep }

// setMode reports whether people have set another mode in a resource of one of the kinds.
func (d decisions) setMode(since asOf, kinds ...string) bool {
	return slices.ContainsFunc(d, func(e store.HistoryEntry) bool {
		return slices.Contains(kinds, e.Key) && since.precedes(e) && isOfPeople(e) && saysMode(e.What)
	})
}

// ordered reports whether people have ordered something of a group of the rollout.
func (d decisions) ordered(since asOf, group string) bool {
	return slices.ContainsFunc(d, func(e store.HistoryEntry) bool {
		return e.Key == rollout.KindRollout && since.precedes(e) && isOfPeople(e) && rollout.IsOrderOf(e.What, group)
	})
}

func isOfPeople(e store.HistoryEntry) bool { return e.Who != EngineName && e.Who != storeName }
