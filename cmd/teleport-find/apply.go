package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/internal/failure"
)

func applyCommand() *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "write resources from a file",
		UsageText: "teleport-find apply -f FILE [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: changesUsage + `

The file holds autoupdate_config, autoupdate_version, autoupdate_notify or several of them, in YAML or JSON, as
"teleport-find get" prints them.
All of it must be right before any of it is written. A resource with metadata.revision is written only if
it has not changed since that revision.`,
		OnUsageError: onUsageError,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "`FILE` with the resources; - for the standard input"},
		}, changeFlags()...),
		Action: func(c *cli.Context) error {
			if words, err := wordsOf(c); err != nil {
				return err
			} else if len(words) > 0 {
				return usageErrorf("apply takes one file, by -f; got %q", words[0])
			}
			list, err := readResources(c)
			if err != nil {
				return err
			}
			return put(c, list, false)
		},
	}
}

func readResources(c *cli.Context) ([]rollout.Resource, error) {
	name := c.String("file")
	if name == "" {
		return nil, usageErrorf("apply which file? -f FILE")
	}
	list, err := readFile(c, name)
	if err != nil {
		return nil, &failure.Error{What: err, State: unwritten}
	}
	return list, nil
}

// readFile reads resources; - is the standard input.
func readFile(c *cli.Context, name string) ([]rollout.Resource, error) {
	var data []byte
	var err error
	if name == "-" {
		name = "standard input"
		data, err = io.ReadAll(c.App.Reader)
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	list, err := rollout.ParseWritten(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// put has the server write resources, and prints the result. isNew says that they must not be there yet.
func put(c *cli.Context, list []rollout.Resource, isNew bool) error {
	result, err := newAdminClient(c).put(c.Context, list, c.Bool("dry-run"), isNew, c.String("reason"))
	if f, ok := errors.AsType[*failure.Error](err); ok && refused(err, http.StatusPreconditionFailed) {
		return f.To(`change what "teleport-find get" prints now, or apply it without metadata.revision`)
	}
	if err != nil {
		return err
	}
	return printResult(c, result)
}
