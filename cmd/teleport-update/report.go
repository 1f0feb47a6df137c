package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/installer"
	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/view"
	"teleport-update/internal/failure"
	"teleport-update/internal/typo"
)

func (a *app) statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "what runs here, what the cluster wants, and why nothing happens", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			formatFlag("", "json, text or openmetrics; default: text on a terminal, json elsewhere"),
			&cli.StringFlag{Name: "explain", Usage: "what the condition `NAME` means, and what helps"},
			&cli.BoolFlag{Name: "offline", EnvVars: env("OFFLINE"), Usage: "do not ask the cluster for its version"},
		},
		Action: func(c *cli.Context) error {
			format, err := a.format(c, "json", "text", "openmetrics")
			if err != nil {
				return err
			}
			a.readOnly = true
			about := c.String("explain")
			if err := checkCondition(about); err != nil {
				return err
			}
			r, err := a.installer(c).Status(c.Context, installer.StatusOptions{Offline: c.Bool("offline")})
			if err != nil {
				return err
			}
			if about != "" {
				fmt.Fprint(a.stdout, decision.Explain(decision.Type(about), r.Conditions))
				return nil
			}
			switch format {
			case "json":
				return a.printJSON(r)
			case "openmetrics":
				return r.OpenMetrics(a.stdout)
			}
			r.Text(a.stdout)
			return nil
		},
	}
}

// checkCondition refuses the name of a condition that does not exist.
func checkCondition(name string) error {
	var names []string
	for _, c := range decision.Checks {
		names = append(names, string(c.Type))
	}
	if name == "" || slices.Contains(names, name) {
		return nil
	}
	return usagef("there is no condition %q%s", name, typo.DidYouMean(name, names))
}

func (a *app) verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "check every kept version, the links and the units", OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			a.readOnly = true
			findings, err := a.installer(c).Verify(c.Context)
			if err != nil {
				return err
			}
			problems, blind := view.WriteFindings(a.stdout, findings)
			switch {
			case problems > 0:
				return failure.Unchanged("%d of %d checks failed", problems, len(findings)).To("each line says what to do")
			case blind > 0:
				return failure.Unchanged("%d of %d checks could not be made", blind, len(findings)).To("each line says why")
			}
			return nil
		},
	}
}

func (a *app) supportCommand() *cli.Command {
	return &cli.Command{
		Name: "support", Usage: "one file for a ticket: status, verify, history, journals, units; without secrets", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", EnvVars: env("OUTPUT"), DefaultText: "a new file in this folder",
				Usage: "where the file goes; - is stdout"},
			&cli.BoolFlag{Name: "agent-journal", EnvVars: env("AGENT_JOURNAL"), Usage: "add the agent's own journal, which is not " +
				"cleaned of secrets"},
		},
		Action: func(c *cli.Context) error {
			a.readOnly = true
			options := installer.SupportOptions{AgentJournal: c.Bool("agent-journal")}
			path := c.String("output")
			if path == "-" {
				out, err := a.stdout.Binary()
				if err != nil {
					return failure.Unchanged("%w", err)
				}
				return a.installer(c).Support(c.Context, out, options)
			}
			if path == "" {
				path = "teleport-update-support-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return failure.Unchanged("%w", err).To("name another file with --output")
			}
			if err := errors.Join(a.installer(c).Support(c.Context, f, options), f.Close()); err != nil {
				return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
			}
			fmt.Fprintln(a.stdout, path)
			return nil
		},
	}
}

func (a *app) historyCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: fmt.Sprintf("the last %d changes of version: when, why, from, to, and what became of them", state.HistoryLength),
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{formatFlag("", "json or text; default: text on a terminal, json elsewhere")},
		Action: func(c *cli.Context) error {
			format, err := a.format(c, "json", "text")
			if err != nil {
				return err
			}
			a.readOnly = true
			h, err := a.installer(c).History()
			if err != nil {
				return err
			}
			if format == "json" {
				return a.printJSON(h)
			}
			return view.WriteHistory(a.stdout, h)
		},
	}
}

func (a *app) policyCommand() *cli.Command {
	return &cli.Command{
		Name: "policy", Usage: "the rules of this host about versions, and which versions on disk they allow", OnUsageError: onUsageError,
		Flags: []cli.Flag{
			formatFlag("", "json or text; default: text on a terminal, json elsewhere"),
			&cli.BoolFlag{Name: "forget", Usage: "forget that there was a policy, where it is gone for good"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("forget") {
				return a.installer(c).ForgetPolicy(c.Context)
			}
			format, err := a.format(c, "json", "text")
			if err != nil {
				return err
			}
			a.readOnly = true
			r, err := a.installer(c).PolicyReport()
			if err != nil {
				return err
			}
			if format == "json" {
				return a.printJSON(r)
			}
			r.Text(a.stdout)
			return nil
		},
	}
}

// format returns the format that was asked for, or text on a terminal and JSON elsewhere.
func (a *app) format(c *cli.Context, known ...string) (string, error) {
	format := c.String("format")
	if format == "" {
		format = map[bool]string{true: "text", false: "json"}[a.stdout.Terminal()]
	}
	if !slices.Contains(known, format) {
		return "", usagef("--format %q is none of %s", format, strings.Join(known, ", "))
	}
	return format, nil
}

func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "the version of this program", OnUsageError: onUsageError,
		Flags: []cli.Flag{formatFlag("text", "json or text")},
		Action: func(c *cli.Context) error {
			format := c.String("format")
			if format != "json" && format != "text" {
				return usagef("--format %q is neither json nor text", format)
			}
			return a.printVersion(format == "json")
		},
	}
}

func (a *app) printVersion(asJSON bool) error {
	if asJSON {
		// An updater of another version asks for the schema: see host.Rescuer.
		return a.printJSON(map[string]any{"version": releaseVersion, "schema": state.Schema, "go": runtime.Version(), "os": runtime.GOOS,
			"arch": runtime.GOARCH})
	}
	fmt.Fprintf(a.stdout, "%s %s %s %s/%s\n", appName, releaseVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

func formatFlag(value, usage string) cli.Flag {
	return &cli.StringFlag{Name: "format", Value: value, EnvVars: env("FORMAT"), Usage: usage}
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
