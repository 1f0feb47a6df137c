package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

func hostsCommand() *cli.Command {
	return &cli.Command{
		Name:      "hosts",
		Usage:     "list the hosts that report",
		UsageText: "teleport-find hosts [--group NAME] [--state STATE] [--version V] [-o table|json|yaml] [--admin-socket PATH]",
		Description: `Hosts are listed by their own reports. Their states are revoked, cloned, absent, on_target, failed, pinned, disabled,
updating, told and waiting.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "group", Usage: "only those of the group `NAME`"},
			&cli.StringFlag{Name: "state", Usage: "only those in the state `STATE`"},
			&cli.StringFlag{Name: "version", Usage: "only those that run the version `V`"},
			&cli.IntFlag{Name: "limit", Value: 1000, Usage: "at most `N` hosts"},
			outputFlag("table"), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := noWords(c); err != nil {
				return fmt.Errorf("%w; one host: teleport-find host ID", err)
			}
			if c.Int("limit") < 1 {
				return usageErrorf("--limit %d is not a number above 0", c.Int("limit"))
			}
			found, err := askHosts(c)
			if err != nil {
				return err
			}
			if err := printAs(c, found, writeHosts); err != nil {
				return err
			}
			if more := found.Total - len(found.Hosts); more > 0 {
				fmt.Fprintf(c.App.ErrWriter, "and %d more: --limit shows them\n", more)
			}
			return nil
		},
	}
}

func writeHosts(w io.Writer, found adminapi.Hosts) error {
	t := newTable("HOST", "ID", "GROUP", "VERSION", "STATE", "LAST REPORT", "REMARK")
	for _, h := range found.Hosts {
		seen := "never"
		if !h.LastSeen.IsZero() {
			seen = rollout.Clock(h.LastSeen)
		}
		t.row(cmp.Or(h.Hostname, "-"), h.ID, h.Group, h.Version, string(h.State), seen, remark(h))
	}
	return t.print(w)
}

// askHosts goes through the pages of the server.
func askHosts(c *cli.Context) (all adminapi.Hosts, err error) {
	client := newAdminClient(c)
	query := url.Values{}
	for _, name := range []string{"group", "state", "version"} {
		if v := c.String(name); v != "" {
			query.Set(name, v)
		}
	}
	if v := c.String("version"); v != "" {
		query.Set("version", strings.TrimPrefix(v, "v")) // as set-version takes it
	}
	all.Hosts = []adminapi.Host{}
	for {
		var page adminapi.Hosts
		query.Set("limit", strconv.Itoa(c.Int("limit")-len(all.Hosts)))
		if err := client.ask(c.Context, http.MethodGet, "/v1/hosts?"+query.Encode(), nil, &page); err != nil {
			return all, err
		}
		all.Hosts, all.Total, all.Next = append(all.Hosts, page.Hosts...), page.Total, page.Next
		if page.Next == "" || len(page.Hosts) == 0 || len(all.Hosts) >= c.Int("limit") {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

func remark(h adminapi.Host) string {
	switch {
	case h.State == adminapi.HostFailed && h.Failed != nil:
		return firstLine(h.Failed.Error)
	case h.Omitted != "":
		return "not counted: " + h.Omitted
	case h.Unhealthy:
		return "its agent is down"
	case h.BelowMinimum:
		return "below_minimum: its policy refuses the version that it runs"
	case h.Unsigned:
		return "unsigned: it would refuse its version if its policy required signatures"
	}
	return ""
}

func hostCommand() *cli.Command {
	return &cli.Command{
		Name:      "host",
		Usage:     "explain the answer that a host gets",
		UsageText: "teleport-find host ID [--group NAME] [-o table|json|yaml] [--admin-socket PATH]",
		Description: `ID is the UUID in the host's /var/lib/teleport/host_uuid. What the host has reported says which group it is in; for a host
that does not report, --group does.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "group", Usage: "`NAME` of the group that the host asks for, instead of the one it has reported"},
			&cli.StringFlag{Name: "update-id", Usage: "`ID` that the host's agent has made for its updater"},
			outputFlag("table"), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			id, err := oneWord(c, "the UUID of one host")
			if err != nil {
				return err
			}
			told, err := askWhy(c, id)
			if err != nil {
				return err
			}
			return printAs(c, told, func(w io.Writer, told hostWhy) error {
				_, err := io.WriteString(w, whyText(told))
				return err
			})
		},
	}
}

// hostWhy is what a host is told and why, and what it has reported.
type hostWhy struct {
	ID string `json:"id"`
	adminapi.Why
	// Reported is nil of a host that has never reported to this server.
	Reported *adminapi.Host `json:"reported"`
}

func askWhy(c *cli.Context, id string) (hostWhy, error) {
	client, why := newAdminClient(c), hostWhy{ID: id}
	query := url.Values{"host": {id}}
	var known adminapi.Host
	err := client.ask(c.Context, http.MethodGet, "/v1/hosts/"+url.PathEscape(id), nil, &known)
	if err == nil {
		why.Reported = &known
		query.Set("group", known.Group)
		query.Set("update_id", known.UpdaterID)
	} else if r, isRefusal := err.(*refusal); isRefusal && r.status != http.StatusNotFound {
		return why, err
	}
	for flag, name := range map[string]string{"group": "group", "update-id": "update_id"} {
		if c.IsSet(flag) {
			query.Set(name, c.String(flag))
		}
	}
	return why, client.ask(c.Context, http.MethodGet, "/v1/why?"+query.Encode(), nil, &why.Why)
}

func whyText(h hostWhy) string {
	text := fmt.Sprintf("host %s is told %s\n\nbecause:\n", console.Line(h.ID), strings.Replace(toldWords(h.Answer), "they are", "it is", 1))
	for _, reason := range h.Reasons {
		text += "  - " + console.Line(reason) + "\n"
	}
	if h.Row != "" {
		text += "  - The rule is: " + h.Row + ".\n"
	}
	r := h.Reported
	if r == nil {
		return text + "\nIt has not reported to this server: what it runs is not known, and it is in no count.\n"
	}
	lines := [][2]string{{"hostname", r.Hostname}, {"group", r.Group}, {"runs", strings.TrimSpace(r.Version + " " + r.Edition)}, {"state", string(r.State)}}
	if !r.LastSeen.IsZero() {
		lines = append(lines, [2]string{"last report", rollout.Clock(r.LastSeen)})
	}
	for name, e := range map[string]*adminapi.Event{"told": r.Told, "began": r.Begun} {
		if e != nil {
			lines = append(lines, [2]string{name, e.Target + ", " + rollout.Clock(e.Time)})
		}
	}
	if r.Failed != nil {
		lines = append(lines, [2]string{"failed", r.Failed.Target + ", " + rollout.Clock(r.Failed.Time) + ": " + firstLine(r.Failed.Error)})
	}
	if r.Omitted != "" {
		lines = append(lines, [2]string{"not counted", r.Omitted})
	}
	text += "\nIt has reported:\n"
	for _, l := range lines {
		if l[1] != "" {
			text += fmt.Sprintf("  %-12s %s\n", l[0], console.Line(l[1]))
		}
	}
	return text
}
