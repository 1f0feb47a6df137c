// Command teleport-find is the reference find server: it tells hosts which
// version of the agent to run, and can serve them the releases.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage.
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/internal/console"
	"teleport-update/internal/flaghelp"
	"teleport-update/internal/typo"
)

func main() {
	// Libraries that log past our log may quote text from others.
	log.SetOutput(console.To(os.Stderr))
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	out, problems := console.To(stdout), console.To(stderr)
	app := &cli.App{
		Name:            "teleport-find",
		Usage:           "tells hosts which version of the Teleport agent to run, and serves the releases",
		Writer:          out,
		ErrWriter:       problems,
		HideVersion:     true,
		HideHelpCommand: true,
		OnUsageError:    onUsageError,
		ExitErrHandler:  func(*cli.Context, error) {}, // the exit code is decided below
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "version", DisableDefaultText: true, Usage: "print the version of this program"},
			&cli.BoolFlag{Name: "debug", EnvVars: []string{"TELEPORT_FIND_DEBUG"}, Usage: "log each request too"},
			&cli.StringFlag{Name: "log-format", EnvVars: []string{"TELEPORT_FIND_LOG_FORMAT"}, Value: "text",
				Usage: "how to write the log, `text|json`"},
		}, serverFlags()...),
		Commands: slices.Concat(
			under("a rollout", statusCommand(), setVersionCommand(), modeCommand(), rolloutCommand(), planCommand(), simulateCommand()),
			under("the configuration", getCommand(), applyCommand(), editCommand(), channelsCommand()),
			under("hosts and people", hostsCommand(), historyCommand(), tokenCommand(), notifyCommand()),
			under("the server", serveCommand(), mirrorCommand(), backupCommand(), restoreCommand(), versionCommand()),
		),
		Action: func(c *cli.Context) error {
			if c.Bool("version") && c.NArg() == 0 {
				return printVersion(c)
			}
			if c.NArg() > 0 {
				word := c.Args().First()
				return usageErrorf("there is no command %q%s; see teleport-find --help", word, typo.DidYouMean(word, commandNames(c.App.Commands)))
			}
			return usageErrorf("which command? See teleport-find --help")
		},
	}
	err := app.Run(spelled(args))
	if err == nil || errors.Is(err, errHelp) {
		return 0
	}
	complain(problems, err)
	if _, ok := errors.AsType[usageError](err); ok {
		return 2
	}
	return 1
}

// under puts commands under a heading of the program's help. The help of a command does not show the heading.
func under(heading string, commands ...*cli.Command) []*cli.Command {
	for _, c := range commands {
		c.Category, c.CustomHelpTemplate = heading, flaghelp.Command()
		if len(c.Subcommands) > 0 {
			c.CustomHelpTemplate = strings.Replace(cli.SubcommandHelpTemplate, "{{if .Category}}", "{{if false}}", 1)
		}
	}
	return commands
}

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:         "version",
		Usage:        "print the version of this program",
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{outputFlag("table")},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			return printVersion(c)
		},
	}
}

// spelled turns common first guesses into the words of this program: "--version", "help",
// "help COMMAND" and the aliases.
func spelled(args []string) []string {
	switch {
	case len(args) == 2 && args[1] == "--version":
		return []string{args[0], "version"}
	case len(args) > 1 && args[1] == "help":
		return append(append([]string{args[0]}, args[2:]...), "--help")
	case len(args) > 1:
		return append(args[:1:1], unaliased(args[1:])...)
	}
	return args
}

// needsWord is the action of a command that only has subcommands.
func needsWord(usage string) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.NArg() > 0 {
			return usageErrorf("there is no command \"%s %s\": teleport-find %s", c.Command.Name, c.Args().First(), usage)
		}
		return usageErrorf("%s needs a word: teleport-find %s", c.Command.Name, usage)
	}
}

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "0.0.0-dev"

func printVersion(c *cli.Context) error {
	if format := c.String("output"); format == "json" || format == "yaml" {
		return printValue(c, map[string]string{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
	}
	_, err := fmt.Fprintf(c.App.Writer, "teleport-find %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
