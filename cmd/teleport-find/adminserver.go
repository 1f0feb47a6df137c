package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/page"
	"teleport-update/find/server/parts"
)

// admin serves the admin API on its socket, and over TCP to holders of tokens, as the flags say, until
// ctx ends. wait waits for that.
func (a *source) admin(ctx context.Context, c *cli.Context, config *tls.Config, log *slog.Logger) (wait func(), err error) {
	options := admin.Options{Stored: a.stored, Store: a.store, Engine: a.engine, Fleet: a.fleet, Channels: a.channels,
		Access: a.access, Certificate: func() time.Time { return certificateEnd(config) }, Hooks: webhooks{a.hooks}, Log: log}
	handler := admin.New(options)
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	wait = func() {
		stop()
		running.Wait()
	}
	serve := func(listener net.Listener, handler http.Handler) {
		running.Go(func() {
			if err := admin.Serve(ctx, listener, handler, log); err != nil {
				log.Error("the admin API has ended", "error", err)
			}
		})
	}
	if path := c.String("admin-socket"); path != "" {
		listener, err := admin.Listen(ctx, path)
		if err != nil {
			wait()
			return nil, err
		}
		serve(listener, handler)
	}
	if address := c.String("admin-listen"); address != "" {
		listener, err := listenTLS(address, config, c.Int("connections-per-address"), log)
		if err != nil {
			wait()
			return nil, fmt.Errorf("--admin-listen: %w", err)
		}
		log.Info("serving the admin API and the page to those who have an access token", "address", listener.Addr(), "page", page.Path)
		serve(listener, a.withPage(handler))
	}
	return wait, nil
}

// listenTLS listens for TLS or, with a nil config, for plain http on a loopback address.
func listenTLS(address string, config *tls.Config, perAddress int, log *slog.Logger) (net.Listener, error) {
	addr, err := server.ResolveListen(address, config != nil)
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, err
	}
	bound := parts.BoundConnections(listener, perAddress, log)
	if config == nil {
		return bound, nil
	}
	return tls.NewListener(bound, config), nil
}

// withPage serves the page for browsers beside the admin API. Both need an access token: the API in each request, the page once.
func (a *source) withPage(api http.Handler) http.Handler {
	opts := page.Options{
		API: api, As: admin.As, Holder: a.access.HolderOf, NoHolder: admin.ErrAccess, Version: version, Clock: now, Log: a.log,
	}
	if a.public != nil {
		opts.Origin = a.public.String()
	}
	ui := page.New(opts)
	tokens := admin.RequireAccess(a.access, api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, page.Path) {
			ui.ServeHTTP(w, r)
			return
		}
		tokens.ServeHTTP(w, r)
	})
}
