package main

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "say when each group would start",
		UsageText: "teleport-find plan [GROUP…] [-f FILE] [-o table|json|yaml] [--admin-socket PATH]",
		Description: `Prints the earliest times, before which no group starts by itself; "teleport-find simulate" tries how a
rollout goes on. With -f, the resources come from a file, and nothing is written.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "`FILE` with resources that are not applied yet; - for the " +
				"standard input"},
			outputFlag("table"), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			starts, warnings, err := askStarts(c)
			if err != nil {
				return err
			}
			if groups := list(words); len(groups) > 0 {
				for _, name := range groups {
					if !slices.ContainsFunc(starts, func(s groupStart) bool { return s.Name == name }) {
						return fmt.Errorf("there is no group %q", name)
					}
				}
				starts = slices.DeleteFunc(starts, func(s groupStart) bool { return !slices.Contains(groups, s.Name) })
			}
			if c.String("output") != "table" {
				return printValue(c, starts)
			}
			t := newTable("GROUP", "STATE", "STARTS AT THE EARLIEST", "HOSTS", "AT A TIME")
			for _, s := range starts {
				t.row(s.Name, string(s.State), s.words(), hostWords(s), s.AtATime)
			}
			for _, warning := range warnings {
				fmt.Fprintf(c.App.ErrWriter, "warning: %s\n", console.Line(warning))
			}
			return t.print(c.App.Writer)
		},
	}
}

// groupStart is a group's line of a preview.
type groupStart struct {
	rollout.GroupOverview
	AtATime string `json:"at_a_time"` // how many hosts may update at once, in words
}

func (s groupStart) words() string {
	switch {
	case s.Waits != "":
		return "not yet: " + s.Waits
	case !s.Starts.IsZero():
		return rollout.Clock(s.Starts)
	case s.Halted != nil:
		return "halted"
	}
	return "has started"
}

func hostWords(s groupStart) string {
	if s.AtATime == "" {
		return "-" // a file has no hosts
	}
	return fmt.Sprint(s.Present)
}

func askStarts(c *cli.Context) (starts []groupStart, warnings []string, err error) {
	client := newAdminClient(c)
	starts = []groupStart{}
	if c.String("file") != "" {
		list, err := readResources(c)
		if err != nil {
			return nil, nil, err
		}
		result, err := client.put(c.Context, list, true, false, "")
		if err != nil {
			return nil, nil, err
		}
		for _, g := range result.Groups {
			starts = append(starts, groupStart{rollout.GroupOverview{Name: g.Group, State: g.State, Starts: g.Starts, Waits: g.Waits}, ""})
		}
		return starts, result.Warnings, nil
	}
	var now adminapi.Overview
	if err := client.ask(c.Context, http.MethodGet, "/v1/overview", nil, &now); err != nil {
		return nil, nil, err
	}
	for _, g := range now.Groups {
		starts = append(starts, groupStart{g, atATime(g)})
	}
	return starts, now.Warnings, nil
}

func atATime(g rollout.GroupOverview) string {
	switch {
	case g.MaxInFlight == nil:
		return "all"
	case g.Plan != nil:
		return fmt.Sprint(g.MaxInFlight.Of(g.Plan.HostCount))
	}
	return fmt.Sprint(g.MaxInFlight.Of(g.Present - g.UpToDate))
}
