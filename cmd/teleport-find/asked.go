package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

func askedCommand() *cli.Command {
	return &cli.Command{
		Name:      "asked",
		Usage:     "list who asked in the last hour, with or without reports",
		UsageText: "teleport-find asked [-o table|json|yaml] [--admin-socket PATH]",
		Description: `Prints which groups asked, what they were told, and about how many hosts each has, as far as hosts say who they are. Anybody
can ask, under any name: the numbers are unconfirmed, and no rollout depends on them.`,
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{outputFlag("table"), adminSocketFlag()},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			return show(c, "/v1/asked", writeAsked)
		},
	}
}

func writeAsked(w io.Writer, a adminapi.Asked) error {
	fmt.Fprintf(w, "unconfirmed: %d questions since %s\n\n", a.Questions, rollout.Clock(a.Since))
	t := newTable("GROUP", "QUESTIONS", "HOSTS, ABOUT", "TOLD")
	for _, g := range a.Groups {
		var versions []string
		for _, v := range slices.Sorted(maps.Keys(g.Versions)) {
			versions = append(versions, fmt.Sprintf("%s: %d", cmp.Or(v, "no version"), g.Versions[v]))
		}
		t.row(cmp.Or(g.Group, "-"), strconv.FormatInt(g.Questions, 10), strconv.Itoa(g.Hosts), strings.Join(versions, ", "))
	}
	if err := t.print(w); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Unknown)) {
		fmt.Fprintf(w, "group %s is in no schedule: %d questions\n", strconv.Quote(name), a.Unknown[name])
	}
	return nil
}
