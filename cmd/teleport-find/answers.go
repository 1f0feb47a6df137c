package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/find/server"
	"teleport-update/find/store"
	releases "teleport-update/internal/version"
)

// answers is where the answers come from, which is one place: the flags and the
// groups file, or the store.
type answers struct {
	server.Answerer
	Watch  func(ctx context.Context, every time.Duration)
	Reload func() error
	close  func() error

	path   string         // of the store that is used
	stored *server.Stored // nil: it is not the store
	engine *server.Engine // nil likewise
	fleet  *server.Fleet  // nil likewise
	asked  *server.Asked
	frozen string // why not

	channels *server.Channels
}

func newAnswers(c *cli.Context, base find.Answer, files *server.Releases, log *slog.Logger) (*answers, error) {
	var fixed []string
	for _, name := range []string{"agent-version", "groups"} {
		if c.String(name) != "" {
			fixed = append(fixed, "--"+name)
		}
	}
	path := c.String("store")
	if path == "" || len(fixed) > 0 {
		static, err := server.NewStatic(server.StaticOptions{Base: base, GroupsFile: c.String("groups"), Releases: files, Log: log})
		if err != nil {
			return nil, err
		}
		a := &answers{Answerer: static, Watch: static.Watch, Reload: static.Reload, close: func() error { return nil }}
		if path != "" {
			a.frozen = fmt.Sprintf("this server answers from its %s, so that nothing in the store has an effect: take that out of its command line, or of /etc/default/teleport-find, and restart it", strings.Join(fixed, " and "))
			log.Info("the store is not used", "store", path, "because_of", strings.Join(fixed, " and "))
		}
		return a, nil
	}
	resources, err := store.OpenSQLite(c.Context, path)
	if err != nil {
		return nil, err
	}
	stored, err := server.NewStored(c.Context, server.StoredOptions{
		Store: resources, Base: base, Edition: releases.Edition(c.String("edition")), Releases: files, Log: log,
	})
	if err != nil {
		resources.Close()
		return nil, err
	}
	fleet, err := server.OpenFleet(c.Context, server.FleetOptions{Store: resources, Clock: time.Now, Jitter: base.Jitter, Log: log})
	if err != nil {
		resources.Close()
		return nil, err
	}
	return &answers{
		Answerer: stored, Watch: stored.Watch, Reload: stored.Reload, close: resources.Close, path: path, stored: stored, fleet: fleet,
		engine: server.NewEngine(server.EngineOptions{Stored: stored, Inventory: fleet, Log: log}),
	}, nil
}

// run steps the rollout until ctx ends, if the answers are from the store. The
// function it returns waits for that.
func (a *answers) run(ctx context.Context) (wait func()) {
	if a.engine == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	every := func(d time.Duration, run func(context.Context, <-chan time.Time)) {
		running.Go(func() {
			ticker := time.NewTicker(d)
			defer ticker.Stop()
			run(ctx, ticker.C)
		})
	}
	every(server.TickEvery, a.engine.Run)
	every(server.SyncEvery, a.fleet.Run)
	every(time.Minute, a.spare)
	return func() {
		stop()
		running.Wait()
	}
}

// spare keeps garbage from taking more memory than the hosts do.
func (a *answers) spare(ctx context.Context, ticks <-chan time.Time) {
	for {
		server.FewerBytes(a.fleet.Len())
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// admin serves the admin API, if it is asked for, until ctx ends. The function it
// returns waits for that.
func (a *answers) admin(ctx context.Context, c *cli.Context, log *slog.Logger) (wait func(), err error) {
	path := c.String("admin-socket")
	if path == "" {
		return func() {}, nil
	}
	listener, err := server.ListenAdmin(ctx, path)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		handler := server.NewAdmin(server.AdminOptions{Stored: a.stored, Engine: a.engine, Fleet: a.fleet, Asked: a.asked, Channels: a.channels, Frozen: a.frozen, Log: log})
		if err := server.ServeAdmin(ctx, listener, handler, log); err != nil {
			log.Error("the admin API has ended", "error", err)
		}
	}()
	return func() {
		stop()
		<-done
	}, nil
}
