package main

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server/adminapi"
)

func historyCommand() *cli.Command {
	return &cli.Command{
		Name:         "history",
		Usage:        "print who changed what, when and why, the newest first",
		UsageText:    "teleport-find history [--limit N] [-o table|json|yaml] [--admin-socket PATH]",
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "limit", Value: 50, Usage: "at most `N` changes"},
			outputFlag("table"), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			if c.Int("limit") < 1 {
				return usageErrorf("--limit %d is not a number above 0", c.Int("limit"))
			}
			return show(c, fmt.Sprintf("/v1/history?limit=%d", c.Int("limit")), func(w io.Writer, h adminapi.History) error {
				t := newTable("WHEN", "WHO", "RESOURCE", "REVISION", "WHY", "WHAT")
				for _, r := range h.Records {
					t.row(r.Time.UTC().Format(time.DateTime), r.Who, r.Key, fmt.Sprintf("%d → %d", r.From, r.To), firstLine(r.Why), firstLine(r.What))
				}
				return t.print(w)
			})
		},
	}
}
