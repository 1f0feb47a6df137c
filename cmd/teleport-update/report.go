package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

func (a *app) statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Usage: "what runs here, what is wanted, and why nothing happens", OnUsageError: onUsageError,
		Flags: []cli.Flag{formatFlag("json")},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			asJSON, err := wantsJSON(c)
			if err != nil {
				return err
			}
			a.readOnly = true
			r, err := a.installer(c).Status(c.Context)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(r)
			}
			r.Text(a.stdout)
			return nil
		},
	}
}

func (a *app) verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "check every kept version, the links and the units", OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			a.readOnly = true
			findings, err := a.installer(c).Verify(c.Context)
			if err != nil {
				return err
			}
			problems := 0
			for _, f := range findings {
				mark := "ok  "
				if !f.OK {
					mark = "BAD "
					problems++
				}
				fmt.Fprintf(a.stdout, "%s %s: %s\n", mark, f.Subject, f.Detail)
			}
			if problems > 0 {
				return failure.Unchanged("%d of %d checks failed", problems, len(findings)).To("`teleport-update update` repairs files; what else is to be done stands in each line")
			}
			return nil
		},
	}
}

func (a *app) versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "the version of this program", OnUsageError: onUsageError,
		Flags: []cli.Flag{formatFlag("text")},
		Action: func(c *cli.Context) error {
			asJSON, err := wantsJSON(c)
			if err != nil {
				return err
			}
			if asJSON {
				// An updater of another version asks for the schema: see host.Rescuer.
				return a.printJSON(map[string]any{"version": releaseVersion, "schema": state.Schema, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			}
			fmt.Fprintf(a.stdout, "%s %s %s %s/%s\n", appName, releaseVersion, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

func formatFlag(value string) cli.Flag {
	return &cli.StringFlag{Name: "format", Value: value, EnvVars: env("FORMAT"), Usage: "json or text"}
}

func wantsJSON(c *cli.Context) (bool, error) {
	switch f := c.String("format"); f {
	case "json":
		return true, nil
	case "text":
		return false, nil
	default:
		return false, usagef("--format %q is neither json nor text", f)
	}
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
