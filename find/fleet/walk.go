package fleet

import (
	"bytes"
	"container/heap"
	"iter"
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// Walk selects the hosts of one page of a list.
type Walk struct {
	// After is the last host of the page before; zero for the first page.
	After rollout.HostID
	// Limit is the largest number of hosts on the page.
	Limit int
	// Group and Version select hosts; nil for any.
	Group, Version *string
	// Failed selects only hosts with a failure, of any version.
	Failed bool
	// Match is called for each host that the other fields select; nil: all match. Its argument is valid until it
	// returns.
	Match func(*Entry) bool
}

// Walk returns the hosts of a page in the order of their ids, and whether there are more after it. It looks at each record
// once and keeps no more than a page of them: no list of all hosts is made or sorted.
func (t *Table) Walk(w Walk) (ids []rollout.HostID, more bool) {
	group, known := placeFor(t.groups, w.Group)
	version, alsoKnown := placeFor(t.versions, w.Version)
	if !known || !alsoKnown || w.Limit <= 0 {
		return nil, false
	}
	var e Entry
	kept := make(lastFirst, 0, w.Limit+1)
	for id, r := range t.walked(w.Failed) {
		if bytes.Compare(id[:], w.After[:]) <= 0 || len(kept) > w.Limit && bytes.Compare(id[:], kept[0][:]) > 0 {
			continue
		}
		if w.Group != nil && r.group != group || w.Version != nil && r.version != version {
			continue
		}
		if w.Match != nil {
			if t.entry(id, r, &e); !w.Match(&e) {
				continue
			}
		}
		heap.Push(&kept, id)
		if len(kept) > w.Limit+1 {
			heap.Pop(&kept)
		}
	}
	slices.SortFunc(kept, func(a, b rollout.HostID) int { return bytes.Compare(a[:], b[:]) })
	return kept[:min(w.Limit, len(kept))], len(kept) > w.Limit
}

// walkPause is how many records are read between two pauses: an id takes far less time than an entry.
const walkPause = 16 * pauseEvery

// walked returns the hosts that a walk reads.
func (t *Table) walked(failed bool) iter.Seq2[rollout.HostID, *packed] {
	return func(yield func(rollout.HostID, *packed) bool) {
		looked := 0
		rest := func() {
			if looked++; looked%walkPause == 0 {
				time.Sleep(50 * time.Microsecond) // see pause
			}
		}
		if failed {
			for id := range t.failures {
				r := t.hosts[id]
				if rest(); !yield(id, &r) {
					return
				}
			}
			return
		}
		for id, r := range t.hosts {
			if rest(); !yield(id, &r) {
				return
			}
		}
	}
}

// placeFor returns the place of a word; known is false for a word that no record has.
func placeFor(w *words, word *string) (place uint16, known bool) {
	if word == nil {
		return 0, true
	}
	place, known = w.places[*word]
	return place, known
}

// lastFirst is a heap with the greatest id at its top.
type lastFirst []rollout.HostID

// Len implements heap.Interface, as the others do.
func (h lastFirst) Len() int           { return len(h) }
func (h lastFirst) Less(i, j int) bool { return bytes.Compare(h[i][:], h[j][:]) > 0 }
func (h lastFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop are called by package heap.
func (h *lastFirst) Push(x any) { *h = append(*h, x.(rollout.HostID)) }
func (h *lastFirst) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
