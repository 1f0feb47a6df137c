package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/installer"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/console"
	"teleport-update/internal/failure"
	"teleport-update/internal/flaghelp"
	"teleport-update/internal/layout"
	"teleport-update/internal/version"
	"teleport-update/versions/fetch"
)

func (a *app) enableCommand() *cli.Command {
	var opts installer.EnableOptions
	return &cli.Command{
		Name: "enable", Usage: "install the version that the cluster wants, and keep the agent on it", OnUsageError: onUsageError,
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "proxy", Destination: &opts.Proxy, EnvVars: env("PROXY"), Usage: "address of the Teleport proxy; " +
				"default: the agent's proxy_server"},
			&cli.StringFlag{Name: "group", Destination: &opts.Group, EnvVars: env("GROUP"), Usage: "update group; default: the " +
				"agent's upgrade_group"},
			&cli.StringSliceFlag{Name: "template", EnvVars: env("TEMPLATE"), Usage: "URL template of the releases; more than one are mirrors"},
			&cli.StringFlag{Name: "ca-file", Destination: &opts.CAFile, EnvVars: env("CA_FILE"), Usage: "PEM file of authorities to " +
				"trust besides the system's"},
		}, settingFlags(), []cli.Flag{
			&cli.StringFlag{Name: "token-file", Destination: &opts.TokenFile, EnvVars: env("TOKEN_FILE"),
				Usage: "file with the token that a new agent joins with; put where its first start looks"},
			&cli.StringFlag{Name: "report-token-file", Destination: &opts.ReportTokenFile, EnvVars: env("REPORT_TOKEN_FILE"),
				Usage: "file with a join token; with it this host reports to the find server"},
		}, flaghelp.Under("which versions and releases it takes",
			&cli.StringFlag{Name: "minimum", Destination: &opts.Minimum, EnvVars: env("MINIMUM"), Usage: "oldest version that this " +
				"host may be switched to; goes into its policy"},
			&cli.StringSliceFlag{Name: "release-key", EnvVars: env("RELEASE_KEY"), Usage: "file with a public key by which releases " +
				"must be signed; copied into /etc/teleport-update/keys.d"},
			&cli.BoolFlag{Name: "allow-downgrade", Destination: &opts.AllowDowngrade, EnvVars: env("ALLOW_DOWNGRADE"),
				Usage: "replace an agent that is newer than the cluster wants"},
		), flaghelp.Under("taking a host over",
			&cli.BoolFlag{Name: "replace-updater", Destination: &opts.ReplaceUpdater, EnvVars: env("REPLACE_UPDATER"),
				Usage: "take the host over from Teleport's own updater, or from teleport-upgrade"},
			&cli.BoolFlag{Name: "allow-auth-server", Destination: &opts.AllowAuthServer, EnvVars: env("ALLOW_AUTH_SERVER"),
				Usage: "take over a host that runs servers of the cluster, whose data the updater does not back up"},
			&cli.BoolFlag{Name: "allow-proxy-conflict", Destination: &opts.AllowProxyConflict, EnvVars: env("ALLOW_PROXY_CONFLICT"),
				Usage: "ask another proxy than the one that the agent's configuration names"},
		), flaghelp.Under("folders and metrics of the host",
			&cli.StringFlag{Name: programsFlag, EnvVars: env("PROGRAMS_DIR"), DefaultText: layout.ProgramsDir + ", or in another data folder",
				Usage: "where the programs of versions go; on a host that has none yet"},
			&cli.StringFlag{Name: "textfile-dir", Destination: &opts.TextfileDir, EnvVars: env("TEXTFILE_DIR"),
				Usage: "folder that only root can write, where node_exporter reads metrics; each run writes teleport-update.prom there"},
		)),
		Action: func(c *cli.Context) error {
			opts.Templates, opts.ProgramsDir = c.StringSlice("template"), asked(c)
			opts.ReleaseKeys = c.StringSlice("release-key")
			opts.Settings = givenSettings(c)
			if err := checkEnable(&opts); err != nil {
				return usageError{err}
			}
			return a.installer(c).Enable(c.Context, opts)
		},
	}
}

// settingFlags are the flags of settings that updates.yaml keeps.
func settingFlags() (all []cli.Flag) {
	for _, r := range state.Settings() {
		vars := env(strings.ToUpper(strings.ReplaceAll(r.Flag, "-", "_")))
		if r.Plain {
			all = append(all, &cli.BoolFlag{Name: r.Flag, EnvVars: vars, Usage: r.Usage})
		} else {
			all = append(all, &cli.StringFlag{Name: r.Flag, EnvVars: vars, Usage: r.Usage, DefaultText: r.Default})
		}
	}
	return all
}

// givenSettings returns the settings whose flags somebody gave.
func givenSettings(c *cli.Context) (given []state.Given) {
	for _, r := range state.Settings() {
		text := c.String(r.Flag)
		if r.Plain {
			text = strconv.FormatBool(c.Bool(r.Flag))
		}
		if c.IsSet(r.Flag) && text != "" {
			given = append(given, state.Given{Row: r, Text: text})
		}
	}
	return given
}

// checkEnable finds errors now that would otherwise come up at 4 a.m.
func checkEnable(o *installer.EnableOptions) error {
	if o.Proxy != "" {
		if _, err := find.ParseProxy(o.Proxy); err != nil {
			return fmt.Errorf("--proxy: %w", err)
		}
	}
	for _, t := range o.Templates {
		if _, err := fetch.ParseTemplate(t); err != nil {
			return err
		}
	}
	if o.Minimum != "" {
		if _, err := version.Parse(o.Minimum); err != nil {
			return fmt.Errorf("--minimum: %w", err)
		}
	}
	for _, g := range o.Settings {
		if err := g.Set(&state.Spec{}, g.Text); err != nil {
			return fmt.Errorf("--%s: %w", g.Flag, err)
		}
	}
	if o.ProgramsDir != "" {
		if err := state.CheckProgramsDir(o.ProgramsDir); err != nil {
			return fmt.Errorf("--%s: %w", programsFlag, err)
		}
	}
	for flag, path := range map[string]*string{"--ca-file": &o.CAFile, "--textfile-dir": &o.TextfileDir} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		*path = abs
	}
	return nil
}

func (a *app) updateCommand() *cli.Command {
	return &cli.Command{
		Name: "update", Usage: "do what the timer does: switch to the version that the cluster wants", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "now", EnvVars: env("NOW"), Usage: "do not wait for jitter, the group's turn, back-off or a hold"},
			&cli.BoolFlag{Name: "dry-run", EnvVars: env("DRY_RUN"), Usage: "say what would be done, change nothing"},
			&cli.BoolFlag{Name: "restart", EnvVars: env("RESTART"), Usage: "restart the agent if its arguments, variables or user " +
				"differ from its unit"},
			&cli.BoolFlag{Name: "skip-backup", EnvVars: env("SKIP_BACKUP"), Usage: "switch even if the database cannot be backed up"},
		},
		Action: func(c *cli.Context) error {
			opts := installer.UpdateOptions{Now: c.Bool("now"), SkipBackup: c.Bool("skip-backup"), Restart: c.Bool("restart")}
			if opts.Restart && transaction.Scheduled() {
				return usagef("--restart is for a person's command: the timer's runs never restart an agent for it")
			}
			if !c.Bool("dry-run") {
				return a.installer(c).Update(c.Context, opts)
			}
			return a.printPlan(a.installer(c).UpdatePlan(c.Context, opts))
		},
	}
}

func (a *app) pinCommand() *cli.Command {
	return &cli.Command{
		Name: "pin", Usage: "stay on a version: the active one, or VERSION, which is installed first", ArgsUsage: "[VERSION]",
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "allow-downgrade", EnvVars: env("ALLOW_DOWNGRADE"), Usage: "install an older VERSION even without a " +
				"database that belongs to it"},
			&cli.BoolFlag{Name: "below-minimum", Usage: "install VERSION even if the policy of this host is against it"},
		},
		Action: func(c *cli.Context) error {
			v, err := versionArgument(c)
			if err != nil {
				return err
			}
			return a.installer(c).Pin(c.Context, v, installer.PinOptions{AllowDowngrade: c.Bool("allow-downgrade"),
				BelowMinimum: c.Bool("below-minimum")})
		},
	}
}

func (a *app) rollbackCommand() *cli.Command {
	return &cli.Command{
		Name: "rollback", Usage: "go back to the previous version, or to VERSION, with its database; no network is needed",
		ArgsUsage: "[VERSION]", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", EnvVars: env("DRY_RUN"), Usage: "say what would be done, change nothing"},
			&cli.BoolFlag{Name: "force", EnvVars: env("FORCE"), Usage: "go back even without a database that belongs to the version"},
			&cli.BoolFlag{Name: "below-minimum", Usage: "go back even if the policy of this host is against the version"},
		},
		Action: func(c *cli.Context) error {
			v, err := versionArgument(c)
			if err != nil {
				return err
			}
			opts := installer.RollbackOptions{Version: v, Force: c.Bool("force"), BelowMinimum: c.Bool("below-minimum")}
			if !c.Bool("dry-run") {
				return a.installer(c).Rollback(c.Context, opts)
			}
			return a.printPlan(a.installer(c).RollbackPlan(c.Context, opts))
		},
	}
}

// printPlan ends a command that only prints its plan.
func (a *app) printPlan(plan view.Plan, err error) error {
	a.readOnly = true
	plan.Text(a.stdout)
	return err
}

// versionArgument reads the one word that a command takes. Flags may follow it, which package flag does not support.
func versionArgument(c *cli.Context) (string, error) {
	var words []string
	for _, arg := range c.Args().Slice() {
		if !strings.HasPrefix(arg, "-") {
			words = append(words, arg)
			continue
		}
		if err := setSwitch(c, strings.TrimLeft(arg, "-")); err != nil {
			return "", err
		}
	}
	if len(words) > 1 {
		return "", usagef("%s takes one version, found %q", c.Command.Name, words)
	}
	if len(words) == 0 {
		return "", nil
	}
	v, err := version.Parse(words[0])
	if err != nil {
		return "", usageError{err}
	}
	return v, nil
}

// setSwitch sets a flag of the command that needs no value.
func setSwitch(c *cli.Context, arg string) error {
	name, value, given := strings.Cut(arg, "=")
	if !given {
		value = "true"
	}
	for _, f := range c.Command.Flags {
		if _, ok := f.(*cli.BoolFlag); !ok || f == cli.HelpFlag || !slices.Contains(f.Names(), name) {
			continue
		}
		if err := c.Set(name, value); err != nil {
			return usagef("--%s is set or not, it cannot be %q", name, value)
		}
		return nil
	}
	return usagef("there is no flag --%s that may follow a version", name)
}

func (a *app) uninstallCommand() *cli.Command {
	return &cli.Command{
		Name: "uninstall", Usage: "remove the updater and leave the agent as it runs", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "with-agent", EnvVars: env("WITH_AGENT"), Usage: "stop and remove the agent, too"},
			&cli.BoolFlag{Name: "dry-run", EnvVars: env("DRY_RUN"), Usage: "say what would be done, change nothing"},
			&cli.BoolFlag{Name: "yes", EnvVars: env("YES"), Usage: "do not ask on a terminal"},
		},
		Action: func(c *cli.Context) error {
			i, withAgent := a.installer(c), c.Bool("with-agent")
			asks := !c.Bool("yes") && console.IsTerminal(os.Stdin) && a.stderr.Terminal()
			if !c.Bool("dry-run") && !asks {
				return a.uninstall(c.Context, i, withAgent)
			}
			lines, err := i.UninstallPlan(c.Context, withAgent)
			if err != nil {
				a.readOnly = true
				return err
			}
			out := a.stderr
			if c.Bool("dry-run") {
				a.readOnly, out = true, a.stdout
			}
			for _, line := range lines {
				fmt.Fprintln(out, console.Line(line))
			}
			if c.Bool("dry-run") {
				fmt.Fprintln(out, "Nothing was changed.")
				return nil
			}
			fmt.Fprint(out, "Uninstall? [y/N] ")
			answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
			if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
				a.readOnly = true
				return failure.Unchanged("uninstall was not confirmed").Refused()
			}
			return a.uninstall(c.Context, i, withAgent)
		},
	}
}

// uninstall prints what is left, and what to type next.
func (a *app) uninstall(ctx context.Context, i *installer.Installer, withAgent bool) error {
	lines, err := i.Uninstall(ctx, withAgent)
	for _, line := range lines {
		fmt.Fprintln(a.stdout, console.Line(line))
	}
	return err
}

func (a *app) recoverCommand() *cli.Command {
	return &cli.Command{
		Name: recoverName, Usage: "close a transaction that was cut off", OnUsageError: onUsageError,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "boot", Usage: "repair files only: the agent has not been started yet"}},
		Action: func(c *cli.Context) error {
			// systemd sets it for programs that it runs after the end of a service.
			if result, ended := os.LookupEnv("SERVICE_RESULT"); ended {
				return a.installer(c).Machine.RecoverKilled(c.Context, result)
			}
			return a.installer(c).Machine.Recover(c.Context, c.Bool("boot"))
		},
	}
}

func (a *app) switchCommand() *cli.Command {
	return &cli.Command{
		Name: "switch", Usage: "the second half of another command, in a unit of its own", OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			order, err := transaction.ReadOrder(os.Stdin)
			if failure.Is[*failure.RefusedError](err) {
				return err
			}
			if err != nil {
				return usageError{err}
			}
			return a.installer(c).Machine.Do(c.Context, order)
		},
	}
}
