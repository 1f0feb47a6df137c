package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
	"teleport-update/tools/internal/figure"
)

const (
	// ratioRounds is how often each store is measured, ratioTime for how long.
	ratioRounds = 5
	ratioTime   = 2 * time.Second
	ratioHosts  = 20_000
)

// contender is a server on one of the stores.
type contender struct {
	name     string
	site     *site
	sequence atomic.Int64
	rates    map[string][]float64
}

// ratios compares PostgreSQL to SQLite.
func ratios(ctx context.Context, d *database) error {
	dir, err := os.MkdirTemp("", "benchfleet-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, err := store.OpenSQLite(ctx, filepath.Join(dir, "store", "store.db"))
	if err != nil {
		return err
	}
	defer file.Close()
	base, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer base.Close()
	all := []*contender{{name: "SQLite"}, {name: "PostgreSQL"}}
	now := new(clock).set(time.Now())
	for i, s := range []store.Store{file, base} {
		if err := populate(ctx, s, ratioHosts, now.now()); err != nil {
			return err
		}
		if all[i].site, err = newSite(ctx, s, now); err != nil {
			return err
		}
		if err := all[i].site.prepare(ctx); err != nil {
			return err
		}
		all[i].rates = make(map[string][]float64)
	}
	for range ratioRounds {
		for _, c := range all {
			now.pass(time.Minute) // a host may report thirty times in one
			c.measure("reports that are kept", ratioTime, func(n int64) error { return c.report(n, true) })
			c.measure("", 0, func(n int64) error { return c.report(n, false) }) // which changes the version once more
			now.pass(time.Minute)
			c.measure("reports with nothing to keep", ratioTime, func(n int64) error { return c.report(n, false) })
			c.measure("answers of find", ratioTime, func(n int64) error {
				c.site.stored.AnswerTo(rollout.Query{Group: group, Host: hostID(int(n % ratioHosts))})
				return nil
			})
		}
	}
	for _, what := range []string{"reports that are kept", "reports with nothing to keep", "answers of find"} {
		a, b := figure.Median(all[0].rates[what]), figure.Median(all[1].rates[what])
		say(what+", a second", "%10.0f with SQLite, %10.0f with PostgreSQL: %.2f", a, b, b/a)
	}
	return nil
}

// report sends the report of the next host, with another version than the last one if it is to be kept.
func (c *contender) report(n int64, kept bool) error {
	i, lap := int(n%ratioHosts), n/ratioHosts
	b := rollout.Heartbeat{
		HostID: hostID(i), Sequence: lap + 1, Hostname: fmt.Sprintf("ip-10-%d-%d.internal", i>>8, i&255), Group: group,
		Version: before, Edition: "oss", Arch: "amd64",
	}
	if kept {
		b.Version = rollout.Semver(fmt.Sprintf("17.1.%d", lap%2))
	}
	return c.site.fleet.Report(context.Background(), secretOf(i), b)
}

// measure does something as often as it can for a while, and for each host once at least, with many at once.
func (c *contender) measure(what string, lasts time.Duration, do func(n int64) error) {
	var done, begun atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range atOnce {
		all.Go(func() {
			for begun.Add(1) <= ratioHosts || time.Since(began) < lasts {
				if err := do(c.sequence.Add(1)); err == nil {
					done.Add(1)
				}
			}
		})
	}
	all.Wait()
	c.rates[what] = append(c.rates[what], float64(done.Load())/time.Since(began).Seconds())
}
