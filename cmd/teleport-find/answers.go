package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/channels"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/files"
	"teleport-update/find/server/inventory"
	"teleport-update/find/server/metrics"
	"teleport-update/find/server/notify"
	"teleport-update/find/store"
	"teleport-update/find/store/postgres"
	releases "teleport-update/internal/version"
)

// source is the one source of the answers: the flags and the groups file, or the store.
type source struct {
	server.Answerer
	Watch  func(ctx context.Context, every time.Duration)
	Reload func() error
	close  func() error

	path   string      // of the store
	store  store.Store // nil: the answers come from elsewhere
	opened store.Store // store without its counters of operations
	log    *slog.Logger
	stored *answers.Stored  // nil without store
	engine *driver.Engine   // nil without store
	fleet  *inventory.Fleet // nil without store
	hooks  *notify.Notifier // nil without store
	access *admin.Access    // nil without store
	frozen string           // why the store is not used
	public *url.URL         // the address of the page for browsers, if a proxy serves it there

	channels *channels.Channels
	metrics  *metrics.Metrics
}

func newAnswers(ctx context.Context, c *cli.Context, base find.Answer, files *files.Releases, m *metrics.Metrics, wait waiting,
	log *slog.Logger) (*source, error) {
	var fixed []string
	for _, name := range []string{"agent-version", "groups"} {
		if c.String(name) != "" {
			fixed = append(fixed, "--"+name)
		}
	}
	path := c.String("store")
	if path == "" || len(fixed) > 0 {
		static, err := answers.NewStatic(answers.StaticOptions{Base: base, GroupsFile: c.String("groups"), Releases: files, Log: log})
		if err != nil {
			return nil, err
		}
		a := &source{Answerer: static, Watch: static.Watch, Reload: static.Reload, close: func() error { return nil }}
		if path != "" {
			a.frozen = fmt.Sprintf("this server answers from its %s, so that nothing in the store has an effect: take that out of "+
				"its command line, or of /etc/default/teleport-find, and restart it", strings.Join(fixed, " and "))
			log.Info("the store is not used", "store", storeName(path), "because_of", strings.Join(fixed, " and "))
		}
		return a, nil
	}
	opened, err := awaitStore(ctx, path, c.String("store-password-file"), wait, log)
	if err != nil {
		return nil, err
	}
	resources := store.Store(opened)
	if c.String("metrics-listen") != "" {
		resources = m.Store(opened)
	}
	stored, err := answers.NewStored(c.Context, answers.StoredOptions{
		Store: resources, Base: base, Edition: releases.Edition(c.String("edition")), Releases: files, Clock: now, Log: log,
		Limits: rollout.Limits{Groups: c.Int("max-groups"), Days: c.Int("max-schedule-days")},
	})
	if err != nil {
		opened.Close()
		return nil, err
	}
	resources = stored.Store()
	var engine *driver.Engine
	fleet := inventory.StartFleet(inventory.FleetOptions{
		Store: resources, Clock: now, Elapsed: elapsed, Jitter: base.Jitter, Named: stored.Named, Log: log,
		Overrides: func() rollout.Overrides { return stored.Resources().Overrides },
		Skew:      func() time.Duration { return engine.Skew() },
		Progress:  m.Reports().Beat,
	})
	a := &source{
		Answerer: stored, Watch: stored.Watch, Reload: stored.Reload, close: opened.Close, path: storeName(path), store: resources,
		opened: opened, log: log,
		stored: stored, fleet: fleet, metrics: m,
		access: admin.NewAccess(resources, now),
	}
	a.hooks = newHooks(a)
	engine = driver.NewEngine(driver.Options{
		Store: resources, Clock: now, Plans: stored.Plans(), Inventory: fleet, Answers: stored,
		Notifier:   a.hooks,
		StoreClock: clockOf(opened), SetRight: fleet.SetRight, Log: log,
	})
	a.engine = engine
	return a, nil
}

// run steps the rollout until ctx ends, if the answers come from the store. Its result
// waits for that.
func (a *source) run(ctx context.Context) (wait func()) {
	if a.engine == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	every := func(d time.Duration, run func(context.Context, <-chan time.Time)) {
		running.Go(func() {
			looks, stop := ticks(d)
			defer stop()
			run(ctx, looks)
		})
	}
	watched := func(p *metrics.Pulse, run func(context.Context, <-chan time.Time)) func(context.Context, <-chan time.Time) {
		return func(ctx context.Context, looks <-chan time.Time) { run(ctx, p.Of(ctx, looks)) }
	}
	every(driver.TickEvery, watched(a.metrics.Engine(), a.engine.Run))
	every(inventory.SyncEvery, watched(a.metrics.Reports(), a.fleet.Run))
	if database, ok := a.opened.(*postgres.Store); ok {
		running.Go(func() { database.Listen(ctx, func() { a.stored.Refresh(ctx) }) })
	}
	every(time.Minute, a.publisher(serverName()).Run)
	every(notify.LookEvery, a.hooks.Run)
	return func() {
		stop()
		running.Wait()
	}
}

// blocked says what keeps the server from moving the rollout.
func (a *source) blocked() []string {
	return (&admin.Options{Stored: a.stored, Engine: a.engine, Fleet: a.fleet}).Blocked()
}

// serverName is the name of this server among the servers of its store.
func serverName() string {
	hostname, _ := os.Hostname()
	return driver.ServerName(hostname)
}

// publisher writes this server's report on hosts into the store.
func (a *source) publisher(name string) *driver.Publisher {
	return &driver.Publisher{
		Name: name, Store: a.store, Clock: now, Fleet: a.fleet, Log: a.log,
		Rollout: func() *rollout.Rollout { return a.stored.Resources().Rollout },
	}
}
