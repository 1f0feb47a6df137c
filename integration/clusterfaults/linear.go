//go:build hosts

package clusterfaults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"teleport-update/find/store"
)

// item is the one that clients change while everything else goes on.
const item = "test/item"

// operation is a read, or a change of what has a revision.
type operation struct {
	write bool
	value string
	based store.Revision
}

// outcome is the revision that is there, or the new one, or nobody knows.
type outcome struct {
	value         string
	at            store.Revision
	lost, unknown bool
}

// register is the item. Its revision is unknown (-1) after a change of which nobody knows, and all of it (any) at the begin of an epoch.
type register struct {
	value string
	at    store.Revision
	any   bool
}

var model = porcupine.Model{
	Init: func() any { return register{any: true} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(register), input.(operation), output.(outcome)
		fits := s.any || s.at == out.at || s.at == -1
		same := s.any || s.value == out.value
		switch {
		case !in.write:
			return fits && same, register{out.value, out.at, false}
		case out.lost && s.any:
			return out.at != in.based, s // its value is not known still
		case out.lost:
			return fits && out.at != in.based, register{s.value, out.at, false}
		case out.unknown && !s.any && s.at != in.based && s.at != -1:
			return true, s
		case out.unknown:
			return true, register{in.value, -1, false}
		}
		based := s.any || s.at == in.based || s.at == -1
		return based && (s.any || out.at > s.at), register{in.value, out.at, false}
	},
}

// linear is what clients have done, by epochs. A read during a failover belongs to neither.
type linear struct {
	w     *world
	began time.Time

	mu      sync.Mutex
	epoch   int
	losing  bool
	history map[int][]porcupine.Operation
	moved   []moved
	changed int
}

// moved is a change that was made while the database failed over: in one of some epochs, and its revision says in which.
type moved struct {
	porcupine.Operation
	first, last int
	at          store.Revision
}

// lose runs a failover.
func (l *linear) lose(f func()) {
	l.mu.Lock()
	l.losing = true
	l.mu.Unlock()
	f()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	l.losing = false
}

func (l *linear) now() (epoch int, losing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch, l.losing
}

// clients change the item until stop is closed.
func (l *linear) clients(stop chan struct{}, all *sync.WaitGroup) {
	for client, s := range l.w.stores {
		all.Go(func() {
			based := store.None
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(30 * time.Millisecond):
				}
				in := operation{write: n%2 == 1, value: fmt.Sprint(time.Now().UnixNano(), "/", client), based: based}
				op := porcupine.Operation{ClientId: client, Input: in, Call: int64(time.Since(l.began))}
				epoch, before := l.now()
				out, ok := perform(s, in)
				op.Output, op.Return = out, int64(time.Since(l.began))
				after, losing := l.now()
				steady := epoch == after && !before && !losing
				if in.write && !ok && !steady {
					// The promoted standby does not have the change. The primary may have had it until then.
					out.unknown, ok = true, true
				}
				if based = out.at; out.unknown {
					op.Output, op.Return = out, never
					based = store.None
				}
				if ok {
					l.add(op, out, epoch, after, steady)
				}
			}
		})
	}
}

// never is when a change ends of which nobody knows.
const never = int64(1000 * time.Hour)

func (l *linear) add(op porcupine.Operation, out outcome, epoch, after int, steady bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	write := op.Input.(operation).write
	made := write && !out.lost && !out.unknown
	switch {
	case steady:
		l.history[epoch] = append(l.history[epoch], op)
	case write:
		m := moved{op, epoch, after + 1, out.at}
		if !made {
			m.at = -1
		}
		l.moved = append(l.moved, m)
	}
	if made {
		l.changed++
	}
}

// settle puts the changes that were made during failovers into the epochs in which they may have been made. The primary may
// have made them before it was lost, and the store has tried them again on the promoted standby.
func (l *linear) settle(epochs []store.Revision) {
	for _, m := range l.moved {
		maybe := m.Operation
		maybe.Output, maybe.Return = outcome{unknown: true}, never
		is := slices.Index(epochs, m.at/store.EpochStep)
		if m.at < 0 {
			is = -1
		}
		for e := m.first; e <= m.last; e++ {
			if e != is {
				l.history[e] = append(l.history[e], maybe)
			}
		}
		if is >= 0 {
			l.history[is] = append(l.history[is], m.Operation)
		}
	}
	l.moved = nil
}

// perform does one operation; a read that fails says nothing, and a change that has failed was not made.
func perform(s store.Store, in operation) (out outcome, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if !in.write {
		found, err := s.Get(ctx, item)
		missing := errors.Is(err, store.ErrNotFound)
		return outcome{value: string(found.Value), at: found.Revision}, err == nil || missing
	}
	at, err := s.Put(ctx, item, []byte(in.value), in.based)
	if conflict, lost := errors.AsType[*store.ConflictError](err); lost {
		return outcome{at: conflict.Found, lost: true}, true
	}
	_, unknown := errors.AsType[*store.UnknownError](err)
	return outcome{at: at, unknown: unknown}, err == nil || unknown
}

// check returns the epochs whose histories no single item could have made.
func (l *linear) check() (wrong []string) {
	epochs, _ := l.w.db.epochs()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle(epochs)
	for epoch, history := range l.history {
		switch porcupine.CheckOperationsTimeout(model, history, 20*time.Second) {
		case porcupine.Illegal:
			wrong = append(wrong, fmt.Sprintf("the history of epoch %d, of %d operations, is not linearizable: %+v", epoch, len(history), history))
		case porcupine.Unknown:
			l.w.count("histories that took too long to be checked")
		}
	}
	return wrong
}
