package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres/pgtest"
)

// operation is what a server asks of the one item: to read it, or to change what is based on a revision.
type operation struct {
	write bool
	value string
	based store.Revision
}

// outcome is what it gets: the revision that is there, or the new one, or nobody knows.
type outcome struct {
	value         string
	at            store.Revision
	lost, unknown bool
}

// register is the item: its revision is unknown (-1) after a change of which nobody knows.
type register struct {
	value string
	at    store.Revision
}

var linear = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, out := state.(register), input.(operation), output.(outcome)
		fits := s.at == out.at || s.at == -1
		switch {
		case !in.write:
			return fits && s.value == out.value, register{s.value, out.at}
		case out.lost:
			return fits && out.at != in.based, register{s.value, out.at}
		case out.unknown && s.at != in.based:
			return true, s
		case out.unknown:
			return true, register{in.value, -1}
		}
		return s.at == in.based && out.at > s.at, register{in.value, out.at}
	},
}

// CLUSTER_RUNS is how many runs there are, CLUSTER_SEED is the first one's seed.
func TestChangesAreLinearizableWhateverBecomesOfTheDatabase(t *testing.T) {
	server := pgtest.Start(t)
	s := []*Store{opened(t, server.Database("find"))}
	for range 2 {
		s = append(s, opened(t, pgtest.URL("find", server)))
	}
	runs, _ := strconv.Atoi(os.Getenv("CLUSTER_RUNS"))
	first, _ := strconv.ParseUint(os.Getenv("CLUSTER_SEED"), 10, 64)
	for seed := first; seed < first+uint64(max(runs, 3)); seed++ {
		history := linearRun(t, server, s, fmt.Sprint("item", seed), rand.New(rand.NewPCG(seed, 0)))
		if result := porcupine.CheckOperationsTimeout(linear, history, time.Minute); result != porcupine.Ok {
			t.Fatalf("seed %d: a history of %d operations is %s: %+v", seed, len(history), result, history)
		}
	}
}

func linearRun(t *testing.T, server *pgtest.Server, servers []*Store, key string, r *rand.Rand) (history []porcupine.Operation) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var all sync.WaitGroup
	changed := 0
	began := time.Now()
	for client := range 2 * len(servers) {
		all.Go(func() {
			s := servers[client%len(servers)]
			based := store.None
			for n := 0; ctx.Err() == nil; n++ {
				in := operation{write: n%2 == 1, value: fmt.Sprint(client, "/", n), based: based}
				op := porcupine.Operation{ClientId: client, Input: in, Call: int64(time.Since(began))}
				out, ok := perform(s, key, in)
				op.Output, op.Return = out, int64(time.Since(began))
				if based = out.at; out.unknown {
					op.Return = int64(24 * time.Hour)
				}
				mu.Lock()
				if ok {
					history = append(history, op)
				}
				if ok && in.write && !out.lost && !out.unknown {
					changed++
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
	switch r.IntN(3) {
	case 0:
		server.Kill()
		server.Boot()
	case 1:
		server.Signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
		server.Signal(syscall.SIGCONT)
	case 2:
		server.SQL("postgres", "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = 'find'")
	}
	time.Sleep(300 * time.Millisecond)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		mu.Lock()
		enough := changed > 0
		mu.Unlock()
		if enough {
			break
		}
		if time.Now().After(end) {
			t.Errorf("%s was never changed", key)
			break
		}
	}
	stop()
	all.Wait()
	return history
}

// perform does one operation; a read that fails says nothing, and a change that has failed was not made.
func perform(s *Store, key string, in operation) (out outcome, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if !in.write {
		item, err := s.Get(ctx, key)
		missing := errors.Is(err, store.ErrNotFound)
		return outcome{value: string(item.Value), at: item.Revision}, err == nil || missing
	}
	at, err := s.Put(ctx, key, []byte(in.value), in.based)
	if conflict, lost := errors.AsType[*store.ConflictError](err); lost {
		return outcome{at: conflict.Found, lost: true}, true
	}
	_, unknown := errors.AsType[*store.UnknownError](err)
	return outcome{at: at, unknown: unknown}, err == nil || unknown
}

// The model finds what must not be.
func TestTheModelFindsAStaleRead(t *testing.T) {
	history := []porcupine.Operation{
		{Input: operation{write: true, value: "a"}, Output: outcome{at: 1}, Call: 0, Return: 1},
		{Input: operation{write: true, value: "b", based: 1}, Output: outcome{at: 2}, Call: 2, Return: 3},
		{Input: operation{}, Output: outcome{value: "b", at: 2}, Call: 4, Return: 5},
	}
	if !porcupine.CheckOperations(linear, history) {
		t.Error("a sound history is refused")
	}
	history[2].Output = outcome{value: "a", at: 1}
	if porcupine.CheckOperations(linear, history) {
		t.Error("a read of what was changed before is taken")
	}
	history[2].Output, history[1].Input = outcome{value: "b", at: 2}, operation{write: true, value: "b"}
	if porcupine.CheckOperations(linear, history) {
		t.Error("a change that was based on what had changed is taken")
	}
}
