package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/installer"
	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/installer/view"
	"teleport-update/internal/console"
	"teleport-update/internal/flaghelp"
	"teleport-update/internal/layout"
	"teleport-update/internal/successor"
	"teleport-update/internal/typo"
	"teleport-update/systemd"
)

// app is one run of the program.
type app struct {
	args           []string // the whole command line
	stdout, stderr *console.Output
	log            *slog.Logger
	terminal       *terminal // nil if stderr is no terminal, or a format of the log was asked for
	dropped        []string  // variables of the environment that this run ignores
	readOnly       bool      // the command only reads: an older updater never takes over
	// settle does the rest of the work once the command is through; may be nil.
	// It returns the error of a command that is done and leaves a fault.
	settle func(ctx context.Context, done bool) error
	// predecessor is the older updater that runs this one, if any.
	predecessor *successor.Successor
}

func (a *app) commands() *cli.App {
	paths := state.DefaultPaths()
	app := &cli.App{
		Name:            appName,
		Usage:           "keep this host's Teleport agent on the version its cluster wants",
		Version:         releaseVersion,
		HideVersion:     true,
		HideHelpCommand: true,
		// A URL may hold a comma. In a variable of the environment, each line is a value.
		SliceFlagSeparator: "\n",
		Writer:             a.stdout,
		ErrWriter:          a.stderr,
		// Exit codes and messages are ours alone.
		ExitErrHandler:  func(*cli.Context, error) {},
		OnUsageError:    onUsageError,
		CommandNotFound: func(c *cli.Context, name string) {},
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() > 0:
				return noCommand(c)
			case c.Bool("version"):
				return a.printVersion(false)
			}
			return cli.ShowAppHelp(c)
		},
		Before: a.before,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data-dir", Value: paths.DataDir, EnvVars: env("DATA_DIR"), Usage: "the agent's state, and the " +
				"versions beside it"},
			&cli.StringFlag{Name: "link-dir", Value: paths.LinkDir, EnvVars: env("LINK_DIR"), Usage: "where the links to the active version go"},
			&cli.StringFlag{Name: "unit-dir", Value: paths.UnitDir, EnvVars: env("UNIT_DIR"), Usage: "where systemd units go"},
			// A person gives it with enable; units and the second half of a command give it here.
			&cli.StringFlag{Name: programsFlag, EnvVars: env("PROGRAMS_DIR"), Hidden: true},
			// For tests and image builds: a host has its policy at the usual place.
			&cli.StringFlag{Name: policyFlag, Value: paths.PolicyDir, EnvVars: env("POLICY_DIR"), Hidden: true},
			&cli.StringFlag{Name: "agent-config", Value: paths.AgentConfig, EnvVars: env("AGENT_CONFIG"), Usage: "the agent's own configuration"},
			&cli.BoolFlag{Name: "debug", EnvVars: env("DEBUG"), Usage: "log more"},
			&cli.StringFlag{Name: "log-format", EnvVars: env("LOG_FORMAT"), Usage: "text or json; default: steps on a terminal, text elsewhere"},
			&cli.BoolFlag{Name: "version", Usage: "say which version of this program it is"},
			cli.HelpFlag, // the library leaves it out if there is a command of that name
		},
		Commands: []*cli.Command{
			bare(a.enableCommand()),
			a.simple("disable", "stop updating; the agent and its version stay", (*installer.Installer).Disable),
			bare(a.updateCommand()),
			a.pinCommand(),
			a.simple("unpin", "follow the cluster again", (*installer.Installer).Unpin),
			a.rollbackCommand(),
			bare(a.statusCommand()),
			bare(a.verifyCommand()),
			bare(a.historyCommand()),
			bare(a.policyCommand()),
			bare(a.supportCommand()),
			bare(a.uninstallCommand()),
			a.versionCommand(),
			a.helpCommand(),
			hidden(a.simple("setup", "write the updater's own units where no package did", (*installer.Installer).Setup)),
			hidden(a.recoverCommand()),
			hidden(a.switchCommand()),
			hidden(bare(a.imageCommand())),
		},
	}
	for _, c := range append(app.Commands, &cli.Command{Flags: app.Flags}) {
		c.CustomHelpTemplate = flaghelp.Command()
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true // it is off unless somebody sets it
			}
		}
	}
	return app
}

func (a *app) helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Usage: "what this program does, or one of its commands", ArgsUsage: "[COMMAND]", OnUsageError: onUsageError,
		// The library would print the whole program's help for a command with this name.
		SkipFlagParsing: true, HideHelp: true,
		Action: func(c *cli.Context) error {
			a.readOnly = true
			if slices.Contains(cli.HelpFlag.Names(), strings.TrimLeft(c.Args().First(), "-")) && strings.HasPrefix(c.Args().First(), "-") {
				cli.HelpPrinter(a.stdout, c.Command.CustomHelpTemplate, c.Command)
				return nil
			}
			if c.NArg() > 1 {
				return usagef("help takes one command, found %q", c.Args().Slice())
			}
			if c.NArg() == 1 && c.App.Command(c.Args().First()) == nil {
				return noCommand(c)
			}
			return a.commands().RunContext(c.Context, append(append([]string{appName}, c.Args().Slice()...), "--help"))
		},
	}
}

func hidden(c *cli.Command) *cli.Command {
	c.Hidden = true
	return c
}

func noCommand(c *cli.Context) error {
	var known []string
	for _, command := range c.App.VisibleCommands() {
		known = append(known, command.Name)
	}
	word := c.Args().First()
	return usagef("there is no command %q%s", word, typo.DidYouMean(word, known))
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		var known []string
		for _, f := range c.Command.VisibleFlags() {
			known = append(known, "--"+f.Names()[0])
		}
		name = "--" + strings.TrimLeft(name, "-")
		return usagef("there is no flag %s%s", name, typo.DidYouMean(name, known))
	}
	return usageError{errors.New(flagWords.Replace(err.Error()))}
}

// flagWords puts the messages of package flag into our words.
var flagWords = strings.NewReplacer(
	"flag needs an argument: -", "a value is missing for --",
	" for flag -", " for --",
	" for flag ", " for --",
	": parse error", "",
)

func (a *app) before(c *cli.Context) error {
	if c.String("log-format") == "" {
		a.terminal = terminalOf(a.stderr, c.Bool("debug"))
	}
	log, err := newLogger(a.stderr, a.terminal, c.String("log-format"), c.Bool("debug"))
	if err != nil {
		return usageError{err}
	}
	a.log = log
	if len(a.dropped) > 0 {
		a.log.Warn("variables that a run of the updater's units cannot go by are ignored: take them out of what its unit reads, "+
			"such as "+layout.EnvironmentFile, "variables", a.dropped)
	}
	if dir := enabledIn(c.String("data-dir"), systemd.UnitPath()); !c.IsSet("data-dir") && dir != "" {
		a.log.Debug("the data folder is the one that the timer's runs have", "folder", dir)
		if err := c.Set("data-dir", dir); err != nil {
			return err
		}
	}
	for _, name := range []string{"data-dir", "link-dir", "unit-dir", "agent-config", policyFlag} {
		if p := c.String(name); !filepath.IsAbs(p) {
			return usagef("--%s %q is not an absolute path", name, p)
		}
	}
	if dir := c.String(programsFlag); dir != "" {
		if err := state.CheckProgramsDir(dir); err != nil {
			return usagef("--%s: %w", programsFlag, err)
		}
	}
	a.predecessor.Begin()
	if !ownWork[c.Args().First()] {
		if code, ran := a.installer(c).RunNewer(c.Context, a.args[1:]); ran {
			return &transaction.ExitError{Code: code}
		}
	}
	return nil
}

// ownWork has the commands that a newer updater never gets: recover, because the rescuer must not be the program that is rescued; switch,
// the second half of a command that another process of this very program began; version, which says which program this is.
var ownWork = map[string]bool{"": true, recoverName: true, "switch": true, "version": true, "help": true}

func (a *app) installer(c *cli.Context) *installer.Installer {
	paths := state.Paths{
		DataDir:     filepath.Clean(c.String("data-dir")),
		LinkDir:     filepath.Clean(c.String("link-dir")),
		UnitDir:     filepath.Clean(c.String("unit-dir")),
		AgentConfig: filepath.Clean(c.String("agent-config")),
	}
	paths.PolicyDir = filepath.Clean(c.String(policyFlag))
	paths.AgentRunDir = layout.AgentRunDir
	if paths.RunDir = runDir(paths.DataDir); paths.RunDir != "" {
		paths.Hooks = layout.Hooks
	}
	paths = placed(c, paths)
	// The path of the running file itself: a link may have changed by the time it is needed.
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	command := []string{self,
		"--data-dir", paths.DataDir, "--link-dir", paths.LinkDir, "--unit-dir", paths.UnitDir,
		"--agent-config", paths.AgentConfig}
	if paths.PolicyDir != layout.PolicyDir {
		command = append(command, "--"+policyFlag, paths.PolicyDir)
	}
	if format := c.String("log-format"); format != "" {
		command = append(command, "--log-format", format)
	}
	if dir := paths.UnusualPrograms(); dir != "" {
		command = append(command, "--"+programsFlag, dir)
	}
	if c.Bool("debug") {
		command = append(command, "--debug")
	}
	i := installer.New(paths, a.log, command...)
	i.Machine.Scheduled = transaction.Scheduled()
	if name := c.Command.Name; name != "switch" && name != recoverName && slices.ContainsFunc(c.App.Commands,
		func(c *cli.Command) bool { return c.Name == name }) {
		a.settle = func(ctx context.Context, done bool) error { return a.end(ctx, i, name, done) }
	}
	i.Version, i.UserAgent = releaseVersion, appName+"/"+releaseVersion
	if a.terminal != nil && !a.terminal.plain {
		i.Terminal = a.terminal
	}
	return i
}

// end does the rest of a command, and says how the host is.
func (a *app) end(ctx context.Context, i *installer.Installer, name string, done bool) error {
	i.Settle(ctx, name)
	paths := i.Machine.Host.Paths
	// The journal of the timer's runs has no status, and a host without systemd has no agent that could be looked at.
	update := name == "update" && !i.Machine.Scheduled && paths.RunDir != ""
	if !done || a.terminal == nil && !update {
		return nil
	}
	if name == "uninstall" {
		a.terminal.say(true, view.ClosingOfUninstall)
		return nil
	}
	if !host.Exists(paths.Config()) {
		return nil // never enabled: the command has said all
	}
	r, err := i.Status(ctx, installer.StatusOptions{Offline: true})
	if err != nil {
		return nil
	}
	if a.terminal != nil {
		a.terminal.say(!r.State.Alarming(), r.Closing())
	} else {
		logConditions(a.log, r)
	}
	if update && r.State.Alarming() {
		return &transaction.ExitError{Code: exitNeedsPerson}
	}
	return nil
}

// logConditions logs what status says about the host.
func logConditions(log *slog.Logger, r view.Status) {
	level := map[decision.Severity]slog.Level{decision.Fault: slog.LevelError, decision.Blind: slog.LevelWarn}
	for _, c := range r.Conditions {
		log.Log(context.Background(), level[c.Severity], c.What, "condition", c.Type, "since", view.Since(c, time.Time{}), "do", c.Do)
	}
}

func (a *app) simple(name, usage string, do func(*installer.Installer, ctx) error) *cli.Command {
	return bare(&cli.Command{Name: name, Usage: usage, OnUsageError: onUsageError, Action: func(c *cli.Context) error {
		return do(a.installer(c), c.Context)
	}})
}
