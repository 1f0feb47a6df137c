package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/find/rollout"
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

// source is the store, and the parts of the server that read and write it.
type source struct {
	close func() error

	path   string // of the store
	store  store.Store
	opened store.Store // store without its counters of operations
	log    *slog.Logger
	stored *answers.Stored
	engine *driver.Engine
	fleet  *inventory.Fleet
	hooks  *notify.Notifier
	access *admin.Access
	public *url.URL // the address of the page for browsers, if a proxy serves it there

	channels *channels.Channels
	metrics  *metrics.Metrics
}

func newAnswers(ctx context.Context, c *cli.Context, base find.Answer, files *files.Releases, m *metrics.Metrics, wait waiting,
	log *slog.Logger) (*source, error) {
	path := c.String("store")
	opened, err := awaitStore(ctx, path, c.String("store-password-file"), wait, log)
	if err != nil {
		return nil, err
	}
	resources := store.Store(opened)
	if c.String("metrics-listen") != "" {
		resources = m.Store(opened)
	}
	history, err := opened.History(ctx, 1)
	if err != nil {
		opened.Close()
		return nil, err
	}
	fresh := len(history) == 0
	if c.String("agent-version") != "" && !fresh {
		base.Version = "" // without a version in the store, it would let all hosts update at once, whatever their groups
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
	beginStore(ctx, c, stored, base.Version, fresh, log)
	var engine *driver.Engine
	fleet := inventory.StartFleet(inventory.FleetOptions{
		Store: resources, Clock: now, Elapsed: elapsed, Jitter: base.Jitter, Named: stored.Named, Log: log,
		Fresh:     fresh && path != "",
		Overrides: func() rollout.Overrides { return stored.Resources().Overrides },
		Skew:      func() time.Duration { return engine.Skew() },
		Progress:  m.Reports().Beat,
	})
	a := &source{
		close: opened.Close, path: storeName(path), store: resources,
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

// beginStore writes into a store that nobody has used yet what the flags say: the version of --agent-version and, in memory, the
// mode enabled. If it cannot be written, the server goes on.
func beginStore(ctx context.Context, c *cli.Context, stored *answers.Stored, target string, fresh bool, log *slog.Logger) {
	var list []rollout.Resource
	if c.String("store") == "" {
		log.Warn("the store is in memory: what is set ends with the server; --store keeps it")
		config := rollout.NewConfig()
		config.Spec.Agents.Mode = rollout.Enabled
		list = append(list, config)
	}
	if c.String("agent-version") != "" && !fresh {
		log.Info("--agent-version is for a store that nobody has used yet: \"teleport-find set-version\" sets the version of this one")
	} else if c.String("agent-version") != "" {
		v := rollout.NewVersion()
		v.Spec.Agents.TargetVersion, v.Spec.Agents.Schedule = rollout.Semver(target), rollout.Immediate
		list = append(list, v)
	}
	if len(list) == 0 {
		return
	}
	_, err := stored.Apply(ctx, list, answers.ApplyOptions{New: true, Who: "serve", Why: "flags"})
	if _, isThere := errors.AsType[*store.ConflictError](err); isThere {
		err = stored.Refresh(ctx) // another server of the store has written it
	}
	if err != nil {
		log.Error("the version of --agent-version was not set; \"teleport-find set-version\" sets it", "error", err)
	}
}

// run steps the rollout until ctx ends. Its result waits for that.
func (a *source) run(ctx context.Context) (wait func()) {
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
