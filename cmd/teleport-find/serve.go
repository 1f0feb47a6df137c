package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/find/server"
	"teleport-update/find/server/files"
	"teleport-update/find/server/metrics"
	"teleport-update/find/server/parts"
	releases "teleport-update/internal/version"
)

// watchEvery is the time between two looks at the store, and at the channels' file.
const watchEvery = time.Second

func serve(c *cli.Context) error {
	log, err := newLog(c)
	if err != nil {
		return err
	}
	base, err := baseAnswer(c)
	if err != nil {
		return usageError{err}
	}
	if err := checkServeFlags(c); err != nil {
		return err
	}
	encrypted := c.Bool("self-signed") || c.String("cert") != ""
	addr, err := server.ResolveListen(c.String("listen"), encrypted)
	if err != nil {
		return usageError{err}
	}
	site, err := newSite(c, addr, encrypted)
	if err != nil {
		return err
	}
	config, reloadCert, err := site.tls(c)
	if err != nil {
		return err
	}

	tarballs, err := openReleases(c.String("releases"), &base, log)
	if err != nil {
		return err
	}
	packages, err := openPackages(c.String("packages"), log)
	if err != nil {
		return err
	}
	base.Edition = cmp.Or(base.Edition, releases.OSS)
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // it would end a server that waits
	watch := metrics.New(metrics.Options{Version: version, Clock: now})
	wait := func(why func() error) (func(), error) { return serveWaiting(ctx, c, why, config, log) }
	answers, err := newAnswers(ctx, c, base, tarballs, watch, wait, log)
	if err != nil && ctx.Err() != nil {
		log.Info("stopped")
		return nil
	}
	if err != nil {
		return err
	}
	defer answers.close()
	if answers.channels, err = newChannels(c, answers.stored, log); err != nil {
		return err
	}

	answers.public = site.public
	admin, err := answers.admin(ctx, c, config, log)
	if err != nil {
		return err
	}
	defer admin()
	watch.From(answers.sources(config))
	if trouble := parts.CertificateTrouble(certificateEnd(config), now()); trouble != "" {
		log.Warn(trouble)
	}
	scraped, err := serveMetrics(ctx, c, watch, config, log)
	if err != nil {
		return err
	}
	defer scraped()
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	site.port = listener.Addr().(*net.TCPAddr).Port
	script, err := site.installScript(tarballs != nil)
	if err != nil {
		return err
	}
	if err := site.print(c.App.Writer, tarballs != nil, packages != nil); err != nil {
		return err
	}
	log.Info("serving", "version", version, "url", site.address(), "releases", c.String("releases"),
		"store", answers.path, "admin_socket", c.String("admin-socket"))

	// For the unit: later units find the server there.
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS="); err != nil {
		log.Warn("systemd could not be told that the server is ready", "error", err)
	}
	go answers.stored.Watch(ctx, watchEvery)
	go answers.channels.Watch(ctx, watchEvery)
	defer answers.run(ctx)()
	go watchdog(ctx, func() error {
		answers.stored.Answer("", "") // it hangs if hosts get no answers
		return watch.Live()
	}, log)
	go reloadOn(ctx, hangups, log, answers.stored.Reload, answers.channels.Reload, reloadCert)
	handler := server.New(server.Options{Answers: answers.stored, Releases: tarballs, Packages: packages, InstallScript: script,
		Fleet: answers.fleet, Blocked: answers.blocked, AccessLog: c.Bool("access-log"), Channels: answers.channels,
		ReleaseTemplate: c.String("release-template"), Log: log})
	if handler, err = withRepository(c, handler, log); err != nil {
		return err
	}
	if c.String("metrics-listen") != "" {
		handler = watch.Count(handler)
	}
	bound := parts.BoundConnections(listener, c.Int("connections-per-address"), log)
	if err := server.Serve(ctx, bound, config, handler, log); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}

// openPackages returns nil if no folder is given.
func openPackages(dir string, log *slog.Logger) (*files.Packages, error) {
	if dir == "" {
		return nil, nil
	}
	return files.OpenPackages(dir, log)
}

// openReleases returns nil if no folder is given. It fills in the parts of base that
// the flags leave open, from the folder.
func openReleases(dir string, base *find.Answer, log *slog.Logger) (*files.Releases, error) {
	if dir == "" {
		return nil, nil
	}
	tarballs, err := files.OpenReleases(dir, log)
	if err != nil {
		return nil, err
	}
	base.Version, base.Edition, err = tarballs.Complete(base.Version, base.Edition)
	if err != nil {
		return nil, fmt.Errorf("choose what to serve from %s: %w", dir, err)
	}
	if names, err := tarballs.Unchecked(); err == nil && len(names) > 0 {
		log.Warn("these tarballs are served, but do not count as the newest release while their .sha256 is missing", "tarballs", names)
	}
	return tarballs, nil
}

// withRepository serves the repository, if there is one, beside other paths. The server
// has no key for it: a repository is signed where it is made.
func withRepository(c *cli.Context, next http.Handler, log *slog.Logger) (http.Handler, error) {
	dir := c.String("repository")
	if dir == "" {
		return next, nil
	}
	repository, err := files.OpenRepository(dir, log)
	if err != nil {
		return nil, err
	}
	log.Info("serving repositories", "dir", dir)
	return repository.Wrap(next), nil
}

// reloadOn reloads at each SIGHUP. After an error, the old state stays.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, log *slog.Logger, reloads ...func() error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		log.Info("reloading, as SIGHUP asks")
		for _, reload := range reloads {
			if err := reload(); err != nil {
				log.Error("the file is not used; everything stays as it was", "error", err)
			}
		}
	}
}
