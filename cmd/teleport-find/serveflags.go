package main

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/find/server/files"
	"teleport-update/find/server/parts"
	"teleport-update/internal/flaghelp"
	releases "teleport-update/internal/version"
	"teleport-update/versions/fetch"
)

func serveCommand() *cli.Command {
	env := func(name string) []string { return []string{"TELEPORT_FIND_" + name} }
	return &cli.Command{
		Name:  "serve",
		Usage: "answer the find endpoint",
		UsageText: "teleport-find serve [--agent-version V] [--store FILE] [--admin-socket PATH] [--releases DIR] " +
			"[--packages DIR] [--listen ADDR] [--cert FILE --key FILE | --self-signed]",
		Description: `Answers GET /v1/webapi/find and /webapi/find, and with --releases GET /releases/NAME and NAME.sha256.
"teleport-find mirror" fills that folder.

A host gets the updater from here with "curl -fsS URL/scripts/install.sh | sh", as root. A server that listens on a
loopback address serves the script only with --public-url. The packages that this
installs are those in the folder of --packages: teleport-update_*.deb, teleport-update-*.rpm, and for hosts
without a package manager the program itself as teleport-update-VERSION-linux-ARCH.

The answers come from the store, which "teleport-find set-version", "mode" and "apply" change over the --admin-socket
while the server runs. --agent-version is for a store that nobody has used yet. Until the store has a version, hosts are told
the newest one in --releases that has its .sha256 beside it; if there is none, hosts stay as they are.

Without --store, the store is in memory and ends with the server; its hosts update from the start. In a new --store,
hosts stay as they are until "mode enabled". Versions of the schedule regular go from group to group by themselves.

SIGHUP reads a renewed certificate.`,
		OnUsageError: onUsageError,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "listen", EnvVars: env("LISTEN"), Value: "127.0.0.1:3080", Usage: "`HOST:PORT` to listen on; plain " +
				"http on loopback addresses only"},
			&cli.StringSliceFlag{Name: "hostname", EnvVars: env("HOSTNAME"), Usage: "`NAME` or address that hosts reach this server " +
				"by, may be repeated: the first is printed, all are in a self-signed certificate (default: the host of --listen, else " +
				"this machine's name)"},
			&cli.StringFlag{Name: "public-url", EnvVars: env("PUBLIC_URL"), Usage: "`URL` by which hosts reach this server, for a proxy " +
				"in front of it: https://HOST[:PORT] (default: from --hostname and --listen)"},
			&cli.StringFlag{Name: "cert", EnvVars: env("CERT"), TakesFile: true, Usage: "PEM `FILE` of the TLS certificate and its chain"},
			&cli.StringFlag{Name: "key", EnvVars: env("KEY"), TakesFile: true, Usage: "PEM `FILE` of the certificate's key"},
			&cli.BoolFlag{Name: "self-signed", EnvVars: env("SELF_SIGNED"), Usage: "make a CA and a certificate, and say what hosts have to trust"},
			&cli.StringFlag{Name: "store", EnvVars: env("STORE"), Usage: "`FILE` that keeps what set-version, mode and apply set, " +
				"in a folder of its own; made if it is not there; or postgres://USER@HOST/DATABASE?sslrootcert=FILE, which several " +
				"servers may share (default: in memory)"},
			passwordFileFlag("TELEPORT_FIND_STORE_PASSWORD_FILE"),
			&cli.StringFlag{Name: "agent-version", EnvVars: env("AGENT_VERSION"), Usage: "`VERSION` that hosts are to run, for a store that " +
				"nobody has used yet (default: the newest in --releases at start, else none)"},
			&cli.StringFlag{Name: "releases", EnvVars: env("RELEASES"), Usage: "`DIR` with tarballs to serve"},
			&cli.StringFlag{Name: "packages", EnvVars: env("PACKAGES"), Usage: "`DIR` with packages of the updater to serve"},
			repositoryFlag(),
			&cli.StringFlag{Name: "admin-socket", EnvVars: env(adminSocketEnv), Usage: "`PATH` of the socket to take commands on, " +
				"such as set-version, mode and apply"},
		}, flaghelp.Under("commands from other machines, metrics and the log",
			&cli.StringFlag{Name: "admin-listen", EnvVars: env("ADMIN_LISTEN"), Usage: "`HOST:PORT` to take commands on from other " +
				"machines, with access tokens (see teleport-find token --help); with the certificate of --listen, plain http on " +
				"loopback addresses only"},
			&cli.StringFlag{
				Name: "metrics-listen", EnvVars: env("METRICS_LISTEN"),
				Usage: "`HOST:PORT` to serve /metrics, /livez and /readyz on, for those who run the server; with the certificate of --listen, " +
					"plain http on loopback addresses only",
			},
			&cli.BoolFlag{Name: "access-log", EnvVars: env("ACCESS_LOG"), Usage: "write a line to the log for each request, up to a " +
				"hundred a second; of more, for a sample"},
		), flaghelp.Under("answers",
			&cli.StringFlag{Name: "edition", EnvVars: env("EDITION"), Usage: "`oss|enterprise|enterprise-fips` (default: the one " +
				"that --releases has of the version, else oss)"},
			&cli.StringFlag{Name: "jitter", EnvVars: env("JITTER"), Value: "0s", Usage: "`DURATION` or seconds within which hosts " +
				"spread their updates"},
			releaseTemplateFlag(),
			&cli.StringFlag{Name: "channels", EnvVars: env("CHANNELS"), TakesFile: true, Usage: "YAML `FILE` with channels for " +
				"updaters of RFD 0109, see teleport-find channels --help (default: the channel default, for hosts of no group)"},
			&cli.StringFlag{Name: "channels-ca-file", EnvVars: env("CHANNELS_CA_FILE"), TakesFile: true,
				Usage: "PEM `FILE` of further authorities to trust for forwarded channels"},
		), flaghelp.Under("a CA of the server's own, with --self-signed",
			&cli.StringFlag{Name: "state", EnvVars: env("STATE"), Usage: "`DIR` to keep the CA of --self-signed in, for the next start"},
			&cli.StringFlag{Name: "ca-out", EnvVars: env("CA_OUT"), Usage: "`FILE` to write the certificate of that CA to"},
		), flaghelp.Under("limits",
			&cli.IntFlag{
				Name: "connections-per-address", EnvVars: env("CONNECTIONS_PER_ADDRESS"), Value: parts.MaxConnections,
				Usage: "at most `N` connections that an address may hold on a listener, an IPv6 address with its /64; 0: any number, as " +
					"for a load balancer before the server; " +
					"loopback addresses are not bounded",
			},
			&cli.IntFlag{
				Name: "max-groups", EnvVars: env("MAX_GROUPS"),
				Usage: "take no configuration with more than `N` groups in a schedule, for providers; 0: any number",
			},
			&cli.IntFlag{
				Name: "max-schedule-days", EnvVars: env("MAX_SCHEDULE_DAYS"),
				Usage: "take no configuration whose last group may start more than `N` days after the first one, days without a window " +
					"left out; 0: a week",
			},
		)),
		Action: serve,
	}
}

// releaseTemplateFlag is the flag of serve with the template in answers. It is checked like on
// hosts: they would not show an invalid one.
func releaseTemplateFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "release-template", EnvVars: []string{"TELEPORT_FIND_RELEASE_TEMPLATE"},
		Usage: "`URL` template of releases to offer to hosts: enable shows it to a person who named none; no host uses it by itself",
		Action: func(_ *cli.Context, text string) error {
			if text == "" {
				return nil
			}
			if len(text) > find.MaxReleaseTemplate {
				return usageErrorf("--release-template is longer than %d bytes", find.MaxReleaseTemplate)
			}
			if _, err := fetch.ParseOffered(text); err != nil {
				return usageErrorf("--release-template: %w", err)
			}
			return nil
		},
	}
}

// repositoryFlag is the flag of serve that withRepository reads.
func repositoryFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "repository", EnvVars: []string{"TELEPORT_FIND_REPOSITORY"}, Usage: "`DIR` with signed apt and yum repositories to " +
			"serve, as /apt and /yum",
		// Checked before the server says that it is ready.
		Action: func(_ *cli.Context, dir string) error {
			_, err := files.OpenRepository(dir, slog.New(slog.DiscardHandler))
			return err
		},
	}
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
	if base.Jitter, err = parseJitter(c.String("jitter")); err != nil {
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
