package main

import (
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

func reportCommand() *cli.Command {
	return &cli.Command{
		Name:         "report",
		Usage:        "count the hosts that report, by group and version",
		UsageText:    "teleport-find report [-o table|json|yaml] [--admin-socket PATH]",
		Description:  `Prints the counts that the rollout depends on, and the hosts that are not counted, each with the reason.`,
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{outputFlag("table"), adminSocketFlag()},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			return show(c, "/v1/counts", writeReport)
		},
	}
}

func writeReport(w io.Writer, n adminapi.Counts) error {
	text := numberOfHosts(n.Hosts) + " have joined"
	if n.Hosts == 1 {
		text = "1 host has joined"
	}
	if !n.Complete {
		text += "; the counts are not complete"
		if !n.CompleteAt.IsZero() {
			text += " before " + rollout.Clock(n.CompleteAt)
		}
	}
	if _, err := io.WriteString(w, text+"\n"); err != nil {
		return err
	}
	t := newTable("GROUP", "PRESENT", "ON TARGET", "UPDATING", "FAILED", "TIMED OUT", "AGENT DOWN", "MISSING", "VERSIONS")
	for _, g := range n.Groups {
		var versions []string
		for _, v := range slices.Sorted(maps.Keys(g.Versions)) {
			versions = append(versions, fmt.Sprintf("%s: %d", v, g.Versions[v]))
		}
		t.row(g.Group, strconv.Itoa(g.Present), strconv.Itoa(g.UpToDate), strconv.Itoa(g.Updating), strconv.Itoa(g.Failed),
			strconv.Itoa(g.TimedOut), strconv.Itoa(g.Unhealthy), strconv.Itoa(g.Missing), strings.Join(versions, ", "))
	}
	if len(t.rows) > 1 {
		fmt.Fprintln(w)
		if err := t.print(w); err != nil {
			return err
		}
	}
	return writeUncounted(w, n.Omitted, n.Unmatched)
}
