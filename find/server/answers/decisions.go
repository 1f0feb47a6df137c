package answers

import (
	"context"
	"slices"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

const (
	// EngineName names the engine in the history.
	EngineName = "engine"
	// storeName is in the history for failovers, and for lost changes that are made
	// again.
	storeName = "store"
)

// maxDecisions is how many records of the history are searched.
const maxDecisions = 1000

// decisions are the records of a store's history, the newest first. They show which earlier revisions a failover has kept,
// and which decisions of people a server has not read. A decision without a record counts as not made: people can undo a
// stop.
type decisions []store.HistoryEntry

func decisionsIn(ctx context.Context, s store.Store) (decisions, error) {
	return s.History(ctx, maxDecisions)
}

// asOf is a point that only later decisions count after.
type asOf struct {
	read store.Revision // the last revision that a server has read
	from time.Time      // later, or at this time; zero is any time
}

func (a asOf) precedes(e store.HistoryEntry) bool { return e.To > a.read && !e.Time.Before(a.from) }

// kept reports whether a store still has the write of a revision from an earlier epoch, by the record of the failover
// that ended the epoch.
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

// ordered reports whether people have given an order for a group of the rollout.
func (d decisions) ordered(since asOf, group string) bool {
	return slices.ContainsFunc(d, func(e store.HistoryEntry) bool {
		return e.Key == rollout.KindRollout && since.precedes(e) && isOfPeople(e) && rollout.IsOrderOf(e.What, group)
	})
}

func isOfPeople(e store.HistoryEntry) bool { return e.Who != EngineName && e.Who != storeName }
