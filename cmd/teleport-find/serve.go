package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/find/server"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/files"
	"teleport-update/find/server/metrics"
	"teleport-update/find/server/parts"
	releases "teleport-update/internal/version"
)

// watchEvery is the time between two looks at the groups file: an operator sees a saved
// edit in the log within two of these.
const watchEvery = time.Second

func serveCommand() *cli.Command {
	env := func(name string) []string { return []string{"TELEPORT_FIND_" + name} }
	return &cli.Command{
		Name:  "serve",
		Usage: "answer the find endpoint",
		UsageText: "teleport-find serve [--agent-version V] [--groups FILE] [--store FILE [--admin-socket PATH]] [--releases DIR] " +
			"[--packages DIR] [--listen ADDR] [--cert FILE --key FILE | --self-signed]",
		Description: `Answers GET /v1/webapi/find and /webapi/find, and with --releases GET /releases/NAME and NAME.sha256.
"teleport-find mirror" fills that folder.

A host gets the updater from here with "curl -fsS URL/scripts/install.sh | sh", as root. A server that listens on a
loopback address serves the script only with --public-url. The packages that this
installs are those in the folder of --packages: teleport-update_*.deb, teleport-update-*.rpm, and for hosts
without a package manager the program itself as teleport-update-VERSION-linux-ARCH.

The groups file is YAML and holds what differs between update groups; "default" is for all hosts of
other groups and of none. What an entry leaves out is as in "default", then as in the flags:

   default: {agent_version: 15.1.1, edition: enterprise, autoupdate: true, jitter: 30s}
   staging: {agent_version: 15.2.0}

The server reads an edit within about two seconds, or at once on SIGHUP, which reads a renewed certificate, too. A file
with an error in it changes nothing: the last good answers stay, and the log says why.

With --store, what hosts are told is in a file that "teleport-find set-version", "mode" and
"apply" change over the --admin-socket, while the server runs. Until it holds a version, the newest in --releases that
has its .sha256 beside it is told; until "mode enabled", hosts stay as they are. Versions of the schedule regular go from group to
group by themselves. --agent-version and --groups override it: with either, the store is not used.

Where no version is known, the answer has none, and hosts stay as they are.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", EnvVars: env("LISTEN"), Value: "127.0.0.1:3080", Usage: "`HOST:PORT` to listen on; plain " +
				"http on loopback addresses only"},
			&cli.StringSliceFlag{Name: "hostname", EnvVars: env("HOSTNAME"), Usage: "`NAME` or address that hosts reach this server " +
				"by, may be repeated: the first is printed, all are in a self-signed certificate (default: the host of --listen, else " +
				"this machine's name)"},
			&cli.StringFlag{Name: "public-url", EnvVars: env("PUBLIC_URL"), Usage: "`URL` by which hosts reach this server, for a proxy " +
				"in front of it: https://HOST[:PORT] (default: that of --hostname and --listen)"},
			&cli.StringFlag{Name: "cert", EnvVars: env("CERT"), TakesFile: true, Usage: "PEM `FILE` of the TLS certificate and its chain"},
			&cli.StringFlag{Name: "key", EnvVars: env("KEY"), TakesFile: true, Usage: "PEM `FILE` of the certificate's key"},
			&cli.BoolFlag{Name: "self-signed", EnvVars: env("SELF_SIGNED"), Usage: "make a CA and a certificate, and say what hosts have to trust"},
			&cli.StringFlag{Name: "state", EnvVars: env("STATE"), Usage: "`DIR` to keep the CA of --self-signed in, for the next start"},
			&cli.StringFlag{Name: "ca-out", EnvVars: env("CA_OUT"), Usage: "`FILE` to write the certificate of that CA to"},
			&cli.StringFlag{Name: "agent-version", EnvVars: env("AGENT_VERSION"), Usage: "`VERSION` that hosts are to run (default: " +
				"the newest in --releases at start, else none)"},
			&cli.StringFlag{Name: "edition", EnvVars: env("EDITION"), Usage: "`oss|enterprise|enterprise-fips` (default: the one " +
				"that --releases has of the version, else oss)"},
			&cli.StringFlag{Name: "jitter", EnvVars: env("JITTER"), Value: "0s", Usage: "`DURATION` or seconds within which hosts " +
				"spread their updates"},
			&cli.StringFlag{Name: "groups", EnvVars: env("GROUPS"), TakesFile: true, Usage: "YAML `FILE` with answers for groups, see above"},
			&cli.StringFlag{Name: "channels", EnvVars: env("CHANNELS"), TakesFile: true, Usage: "YAML `FILE` with channels for " +
				"updaters of RFD 0109, see teleport-find channels --help (default: the channel default, for hosts of no group)"},
			&cli.StringFlag{Name: "channels-ca-file", EnvVars: env("CHANNELS_CA_FILE"), TakesFile: true,
				Usage: "PEM `FILE` of further authorities to trust for forwarded channels"},
			&cli.StringFlag{Name: "store", EnvVars: env("STORE"), Usage: "`FILE` that keeps what set-version, mode and apply set, " +
				"in a folder of its own; made if it is not there; or postgres://USER@HOST/DATABASE?sslrootcert=FILE, which several " +
				"servers may share. With --agent-version or --groups it is not used"},
			passwordFileFlag("TELEPORT_FIND_STORE_PASSWORD_FILE"),
			&cli.StringFlag{Name: "admin-socket", EnvVars: env(adminSocketEnv), Usage: "`PATH` of the socket to take commands on, " +
				"such as set-version, mode and apply; needs --store"},
			&cli.StringFlag{Name: "admin-listen", EnvVars: env("ADMIN_LISTEN"), Usage: "`HOST:PORT` to take commands on from other " +
				"machines, with access tokens (see teleport-find token --help); with the certificate of --listen, plain http on " +
				"loopback addresses only"},
			&cli.StringFlag{
				Name: "metrics-listen", EnvVars: env("METRICS_LISTEN"),
				Usage: "`HOST:PORT` to serve /metrics, /livez and /readyz on, for those who run the server; with the certificate of --listen, " +
					"plain http on loopback addresses only",
			},
			&cli.StringFlag{Name: "releases", EnvVars: env("RELEASES"), Usage: "`DIR` with tarballs to serve"},
			&cli.StringFlag{Name: "packages", EnvVars: env("PACKAGES"), Usage: "`DIR` with packages of the updater to serve"},
			&cli.BoolFlag{Name: "access-log", EnvVars: env("ACCESS_LOG"), Usage: "write a line to the log for each request, up to a " +
				"hundred a second; of more, for a sample"},
			&cli.IntFlag{
				Name: "connections-per-address", EnvVars: env("CONNECTIONS_PER_ADDRESS"), Value: parts.MaxConnections,
				Usage: "at most `N` connections that an address may hold on a listener, an IPv6 address with its /64; 0: any number, as " +
					"for a load balancer before the server; " +
					"loopback addresses are not bounded",
			},
			&cli.IntFlag{
				Name: "max-groups", EnvVars: env("MAX_GROUPS"),
				Usage: "take no configuration with more than `N` groups in a schedule, for who offers the server to others; 0: any number",
			},
			&cli.IntFlag{
				Name: "max-schedule-days", EnvVars: env("MAX_SCHEDULE_DAYS"),
				Usage: "take no configuration whose last group may start more than `N` days after the first one, days without a window " +
					"left out; 0: a week",
			},
			releaseTemplateFlag(),
			repositoryFlag(),
		},
		Action: serve,
	}
}

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
	if answers.channels, err = newChannels(c, answers.Answerer, log); err != nil {
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
	log.Info("serving", "version", version, "url", site.address(), "releases", c.String("releases"), "groups", c.String("groups"),
		"store", answers.path, "admin_socket", c.String("admin-socket"))

	// For the unit: later units find the server there.
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady+"\nSTATUS="); err != nil {
		log.Warn("systemd could not be told that the server is ready", "error", err)
	}
	go answers.Watch(ctx, watchEvery)
	go answers.channels.Watch(ctx, watchEvery)
	defer answers.run(ctx)()
	go watchdog(ctx, func() error {
		answers.Answer("", "") // it hangs if hosts get no answers
		return watch.Live()
	}, log)
	go reloadOn(ctx, hangups, log, answers.Reload, answers.channels.Reload, reloadCert)
	handler := server.New(server.Options{Answers: answers.Answerer, Releases: tarballs, Packages: packages, InstallScript: script,
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

func baseAnswer(c *cli.Context) (find.Answer, error) {
	base := find.Answer{AutoUpdate: true}
	var err error
	if v := c.String("agent-version"); v != "" {
		if base.Version, err = releases.Parse(v); err != nil {
			return base, fmt.Errorf("--agent-version: %w", err)
		}
	}
	if e := c.String("edition"); e != "" {
		if base.Edition, err = releases.ParseEdition(e); err != nil {
			return base, fmt.Errorf("--edition: %w", err)
		}
	}
	if base.Jitter, err = answers.ParseJitter(c.String("jitter")); err != nil {
		return base, fmt.Errorf("--jitter: %w", err)
	}
	return base, nil
}

func checkServeFlags(c *cli.Context) error {
	if c.NArg() > 0 {
		return usageErrorf("serve takes no arguments, got %q", c.Args().First())
	}
	if err := checkTLSFlags(c); err != nil {
		return err
	}
	if c.Int("connections-per-address") < 0 {
		return usageErrorf("--connections-per-address is a number of connections, or 0 for any number")
	}
	for _, name := range []string{"admin-socket", "admin-listen"} {
		if c.String(name) != "" && c.String("store") == "" {
			return usageErrorf("--%s takes changes of a --store, and there is none", name)
		}
	}
	return nil
}

func checkTLSFlags(c *cli.Context) error {
	selfSigned, hasCert, hasKey := c.Bool("self-signed"), c.String("cert") != "", c.String("key") != ""
	switch {
	case hasCert != hasKey:
		return usageErrorf("--cert and --key go together")
	case selfSigned && hasCert:
		return usageErrorf("--self-signed makes its own certificate: give it or --cert, not both")
	case !selfSigned && (c.String("state") != "" || c.String("ca-out") != ""):
		return usageErrorf("--state and --ca-out are for --self-signed")
	}
	return nil
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
