package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server"
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
			if words, err := wordsOf(c); err != nil {
				return err
			} else if len(words) > 0 {
				return usageErrorf("history takes no arguments, got %q", words[0])
			}
			if c.Int("limit") < 1 {
				return usageErrorf("--limit %d is no number of changes", c.Int("limit"))
			}
			var h server.AdminHistory
			if err := newAdminClient(c).ask(c.Context, http.MethodGet, fmt.Sprintf("/v1/history?limit=%d", c.Int("limit")), nil, &h); err != nil {
				return err
			}
			if c.String("output") != "table" {
				return printValue(c, h)
			}
			t := newTable("WHEN", "WHO", "RESOURCE", "REVISION", "WHY", "WHAT")
			for _, r := range h.Records {
				t.row(r.Time.UTC().Format(time.DateTime), r.Who, r.Key, fmt.Sprintf("%d → %d", r.From, r.To), firstLine(r.Why), firstLine(r.What))
			}
			return t.print(c.App.Writer)
		},
	}
}
