package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"teleport-update/find/server/metrics"
	"teleport-update/find/store/postgres"
)

// awaitEvery is how often a server that starts looks for its database.
const awaitEvery = time.Second

// waiting tells others that the server waits, and why, until stop is called.
type waiting func(why func() error) (stop func(), err error)

// awaitStore opens the store of a server. If its database is away, the server waits: when a machine boots with its
// database, or during a failover, nobody has to start the server again.
func awaitStore(ctx context.Context, address, passwordFile string, wait waiting, log *slog.Logger) (openedStore, error) {
	opened, err := openStore(ctx, address, passwordFile)
	if err != nil && postgres.IsURL(address) && postgres.Away(err) {
		opened, err = awaitDatabase(ctx, address, passwordFile, err, wait, log)
	}
	if err != nil {
		return nil, err
	}
	if database, ok := opened.(*postgres.Store); ok && database.Warning() != "" {
		log.Warn(database.Warning())
	}
	return opened, nil
}

func awaitDatabase(ctx context.Context, address, passwordFile string, err error, wait waiting, log *slog.Logger) (openedStore, error) {
	log.Warn("the server waits for its database: hosts get no answers until then, and stay as they are", "error", err)
	var mu sync.Mutex
	stop, failed := wait(func() error {
		mu.Lock()
		defer mu.Unlock()
		return err
	})
	if failed != nil {
		return nil, failed
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(awaitEvery):
		}
		opened, again := openStore(ctx, address, passwordFile)
		if again == nil {
			log.Info("the database is there")
		}
		if again == nil || !postgres.Away(again) {
			return opened, again
		}
		mu.Lock()
		err = again
		mu.Unlock()
	}
}

// serveWaiting serves metrics that show the server as alive and not ready, and tells systemd that it waits.
func serveWaiting(ctx context.Context, c *cli.Context, why func() error, config *tls.Config, log *slog.Logger) (stop func(), err error) {
	m := metrics.New(metrics.Options{Version: version, Clock: now})
	m.From(metrics.Sources{Store: why})
	ctx, cancel := context.WithCancel(ctx)
	scraped, err := serveMetrics(ctx, c, m, config, log)
	if err != nil {
		cancel()
		return nil, err
	}
	// Without this, systemd would end the start after its timeout, and start the server again.
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS=waits for its database"); err != nil {
		log.Warn("systemd could not be told that the server waits", "error", err)
	}
	go watchdog(ctx, func() error { return nil }, log)
	return func() {
		cancel()
		scraped()
	}, nil
}
