package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/driver"
	"teleport-update/find/store"
)

const (
	servers = 3
	// poll is how often each host does.
	poll = 10 * time.Minute
	// atOnce is how many hosts report at the same moment.
	atOnce = 256
	// maxRounds is a day.
	maxRounds = int(24 * time.Hour / driver.TickEvery)
)

// world is servers and hosts.
type world struct {
	clock    *clock
	sites    []*site
	version  []string // that hosts run
	ticks    []time.Duration
	syncs    []time.Duration
	reports  atomic.Int64
	refusals atomic.Int64
	inPolls  time.Duration
}

func newWorld(hosts int, now time.Time) *world {
	w := &world{clock: new(clock).set(now), version: make([]string, hosts)}
	for i := range w.version {
		w.version[i] = before
	}
	return w
}

// rolloutOf measures a whole rollout.
func rolloutOf(ctx context.Context, d *database, hosts int) error {
	began := time.Now()
	w := newWorld(hosts, began)
	first, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := populate(ctx, first, hosts, w.clock.now()); err != nil {
		return err
	}
	say("hosts are in the store, in", "%8.1f s, %d MB", time.Since(began).Seconds(), d.written().size>>20)
	if err := w.start(ctx, func() (store.Store, error) { return d.open(ctx) }); err != nil {
		return err
	}
	if err := w.sites[0].prepare(ctx); err != nil {
		return err
	}
	from, wall, simulated := d.written(), time.Now(), w.clock.now()
	rounds, err := w.play(ctx)
	if err != nil {
		return err
	}
	did, passed := d.written().since(from), w.clock.now().Sub(simulated).Seconds()
	say("rollout of the fleet", "%8d hosts, %d servers, %d rounds, %.0f minutes of its clock in %.0f s",
		hosts, servers, rounds, passed/60, time.Since(wall).Seconds())
	printTimes("tick of an engine", w.ticks)
	printTimes("sync of an inventory, and what was waiting", w.syncs)
	each := w.inPolls.Seconds() * 1e6 / float64(w.reports.Load())
	say("polls with their reports", "%8.1f µs each, %d, of which %d were refused", each, w.reports.Load(), w.refusals.Load())
	say("written by the database", "%8.0f kB/s of WAL, %.1f transactions/s, %.0f rows/s by the clock of the fleet",
		float64(did.bytes)/passed/1000, float64(did.transactions)/passed, float64(did.rows)/passed)
	// A page is written as a whole when it is first changed after a checkpoint: 8 KiB, less what is empty.
	say("in all", "%8.0f MB of WAL, with %d whole pages; %d transactions, %d rows; the database has %d MB",
		float64(did.bytes)/1e6, did.pages, did.transactions, did.rows, did.size>>20)
	return nil
}

// start opens the servers, and says what memory each has taken.
func (w *world) start(ctx context.Context, open func() (store.Store, error)) error {
	for range servers {
		s, err := open()
		if err != nil {
			return err
		}
		had, began := memory(), time.Now()
		opened, err := newSite(ctx, s, w.clock)
		if err != nil {
			return err
		}
		w.sites = append(w.sites, opened)
		say("a start", "%8.1f s, %d MB of memory", time.Since(began).Seconds(), (memory()-had)>>20)
	}
	return nil
}

// memory is what this process has of the machine.
func memory() int64 {
	debug.FreeOSMemory()
	text, _ := os.ReadFile("/proc/self/statm")
	var size, resident int64
	fmt.Sscan(string(text), &size, &resident)
	return resident * int64(os.Getpagesize())
}

// play goes through rounds until the group is done.
func (w *world) play(ctx context.Context) (rounds int, err error) {
	last := int64(0)
	for ; rounds < maxRounds && ctx.Err() == nil; rounds++ {
		w.clock.pass(driver.TickEvery)
		if err := w.polls(ctx, rounds); err != nil {
			return rounds, err
		}
		for _, s := range w.sites {
			began := time.Now()
			if err := s.fleet.Tick(ctx); err != nil {
				return rounds, err
			}
			w.syncs = append(w.syncs, time.Since(began))
			began = time.Now()
			if _, err := s.engine.Tick(ctx); err != nil {
				return rounds, err
			}
			w.ticks = append(w.ticks, time.Since(began))
			if err := s.stored.Refresh(ctx); err != nil {
				return rounds, err
			}
		}
		r := w.sites[0].stored.Resources().Rollout
		if r != nil && r.Status.State == rollout.Done {
			say("memory of all servers and hosts at the end", "%8d MB", memory()>>20)
			return rounds, nil
		}
		if now := w.clock.now().Unix() / int64(poll/time.Second); now > last {
			last = now
			fmt.Fprintf(os.Stderr, "  … round %d: %d of %d hosts are updated\n", rounds, w.updated(), len(w.version))
		}
	}
	return rounds, fmt.Errorf("the rollout is not done after %d rounds", rounds)
}

func (w *world) updated() (n int) {
	for _, v := range w.version {
		if v == target {
			n++
		}
	}
	return n
}

// polls has every sixtieth host ask one server and report to it.
func (w *world) polls(ctx context.Context, round int) error {
	began := time.Now()
	const parts = int(poll / driver.TickEvery)
	todo := make(chan int, atOnce)
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for range atOnce {
		all.Go(func() {
			for i := range todo {
				if err := w.poll(ctx, i, round); err != nil {
					w.refusals.Add(1)
					failed.Store(&err)
				}
			}
		})
	}
	for i := round % parts; i < len(w.version); i += parts {
		todo <- i
	}
	close(todo)
	all.Wait()
	w.inPolls += time.Since(began)
	if why := failed.Load(); why != nil && w.refusals.Load() > int64(len(w.version)/100) {
		return fmt.Errorf("reports are refused: %w", *why)
	}
	return nil
}

func (w *world) poll(ctx context.Context, i, round int) error {
	s := w.sites[(i+round)%servers]
	now := w.clock.now()
	a := s.stored.AnswerTo(rollout.Query{Group: group, Host: hostID(i)})
	b := rollout.Heartbeat{
		HostID: hostID(i), Sequence: int64(fleet.SequenceAt(now)), Hostname: fmt.Sprintf("ip-10-%d-%d.internal", i>>8, i&255), Group: group,
		Version: rollout.Semver(w.version[i]), Edition: "oss", Arch: "amd64",
	}
	if a.AutoUpdate && a.Version != w.version[i] {
		w.version[i] = a.Version
		b.Version, b.Told = rollout.Semver(a.Version), rollout.Semver(a.Version)
		b.Outcome = &rollout.Outcome{Target: b.Version, State: rollout.OutcomeSucceeded, Time: now}
	}
	w.reports.Add(1)
	return s.fleet.Report(ctx, secretOf(i), b)
}

func say(what, format string, args ...any) {
	fmt.Printf("  %-46s "+format+"\n", append([]any{what}, args...)...)
}

// printTimes says how long something took: the median, one in a hundred, the longest.
func printTimes(what string, took []time.Duration) {
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))].Seconds() * 1000 }
	say(what, "%8.1f ms; 99 %%: %.1f ms, the longest %.1f ms", at(0.5), at(0.99), at(1))
}
