package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/metrics"
	"teleport-update/find/server/parts"
)

// sources returns the sources of the metrics.
func (a *source) sources(config *tls.Config) metrics.Sources {
	return metrics.Sources{
		Certificate: func() time.Time { return certificateEnd(config) },
		Snapshot:    a.stored.Age, Reports: a.fleet.Trouble,
		Resting: func() error {
			if r := a.stored.Resting(); r != nil {
				return r.Err
			}
			return nil
		},
		Rollout:  func() *rollout.Rollout { return a.stored.Resources().Rollout },
		Webhooks: a.failingWebhooks,
		Engine: func() metrics.Engine {
			e := a.engine.Status()
			return metrics.Engine{LastTick: e.LastTick, Err: e.Err, Skew: e.Skew, Counts: e.Counts}
		},
	}
}

// certificateEnd returns when the certificate for hosts that name no server ends, or the
// zero time.
func certificateEnd(config *tls.Config) time.Time {
	if config == nil {
		return time.Time{}
	}
	var shown *tls.Certificate
	if len(config.Certificates) > 0 {
		shown = &config.Certificates[0]
	}
	if config.GetCertificate != nil {
		if c, err := config.GetCertificate(&tls.ClientHelloInfo{}); err == nil && c != nil {
			shown = c
		}
	}
	if shown == nil || len(shown.Certificate) == 0 {
		return time.Time{}
	}
	leaf, err := x509.ParseCertificate(shown.Certificate[0])
	if err != nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

// serveMetrics serves the metrics, if the flags ask for that, until ctx ends. Its
// result waits for that.
func serveMetrics(ctx context.Context, c *cli.Context, m *metrics.Metrics, config *tls.Config, log *slog.Logger) (wait func(), err error) {
	address := c.String("metrics-listen")
	if address == "" {
		return func() {}, nil
	}
	listener, err := listenTLS(address, config, c.Int("connections-per-address"), log)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	log.Info("serving metrics", "address", listener.Addr())
	server := &http.Server{
		Handler: m.Handler(), ReadHeaderTimeout: metricsTime, ReadTimeout: metricsTime, WriteTimeout: metricsTime, IdleTimeout: parts.IdleTime,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		defer close(done)
		if err := server.Serve(listener); err != nil && ctx.Err() == nil {
			log.Error("metrics are not served any more", "error", err)
		}
	}()
	return func() {
		stop()
		server.Close()
		<-done
	}, nil
}

// metricsTime bounds a request for metrics, and its answer.
const metricsTime = 10 * time.Second

// watchdog tells systemd that the server lives, if the unit has a WatchdogSec, until ctx
// ends: while its loops go on, and hosts get answers. Otherwise systemd ends the
// process, whose traces show where it hangs, and starts another one.
func watchdog(ctx context.Context, live func() error, log *slog.Logger) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return
	}
	ticker := time.NewTicker(every / 3)
	defer ticker.Stop()
	dead := false
	for {
		if err := live(); err == nil {
			dead = false
			if _, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog); err != nil {
				log.Warn("systemd could not be told that the server lives", "error", err)
			}
		} else if !dead {
			dead = true
			log.Error("the server hangs, and systemd will start it again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
