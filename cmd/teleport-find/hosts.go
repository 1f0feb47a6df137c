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

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/internal/console"
)

func hostsCommand() *cli.Command {
	return &cli.Command{
		Name:  "hosts",
		Usage: "list the hosts that report, or explain the answer that one gets",
		UsageText: "teleport-find hosts [--group NAME] [--state STATE] [--version V] [-o table|json|yaml] [--admin-socket PATH]\n" +
			"teleport-find hosts ID|HOSTNAME [--as-if] [--group NAME] [-o table|json|yaml] [--admin-socket PATH]\n" +
			"teleport-find hosts ID|HOSTNAME update [--to start|VERSION]|hold|release [--until TIME] [--reason TEXT] [--dry-run]",
		Description: `Hosts are listed by their own reports. The version that counts for a state is the target of the rollout or, in a group that
was rolled back, the one that it goes back to. The state of a host is the first of these that holds: revoked; cloned (several
hosts report with its secret); absent (no report for 25 minutes); on_target (it runs the version); failed (the version has
failed on it); pinned; disabled; updating (it has begun to update to the version); told (it has said that it was told to
update, and has not begun); waiting (it has not said that it was told to update to the version).

With an ID or a hostname, it explains the answer that this host gets. ID is what is in the host's
/var/lib/teleport/host_uuid: a UUID, or ACCOUNT-INSTANCE on EC2. If several hosts have reported the hostname, all are listed. What the
host has reported says which group it is in. With update, hold or release, the next answer to the host says so, whatever its group: update
to the version or to that of --to, stay as it is, or follow the group again. An update also ends with the rollout, and if the group is
halted or rolled back after it. A host that is held, or sent to another version, is in no count. An update is refused for a host that
does not report, or that its owner pinned or disabled, and while updates are not enabled. Of a host that has not joined nothing is known;
with --as-if, the command says what a host of that ID would be told, in the group of --group.`,
		OnUsageError: onUsageError,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "group", Usage: "only those of the group `NAME`; with an ID, the group that the host asks for"},
			&cli.StringFlag{Name: "state", Usage: "only those in the state `STATE`"},
			&cli.StringFlag{Name: "version", Usage: "only those that run the version `V`"},
			&cli.IntFlag{Name: "limit", Value: 1000, Usage: "at most `N` hosts"},
			&cli.BoolFlag{Name: "as-if", Usage: "with an ID, say what a host would be told that has not joined"},
			&cli.StringFlag{Name: "update-id", Usage: "with an ID, the `ID` that the host's agent has made for its updater"},
			&cli.StringFlag{Name: "to", Usage: "with update, `start|VERSION`: where the host goes, also back"},
			&cli.StringFlag{Name: "until", Usage: "with update or hold, the end: a `TIME` as 2026-01-31T15:04:05Z, or a duration from now"},
			&cli.StringFlag{Name: "reason", Usage: "`TEXT` that the history keeps"},
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would change, and change nothing"},
			outputFlag("table"), adminSocketFlag(),
		},
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			switch {
			case err != nil:
				return err
			case len(words) > 2:
				return usageErrorf("hosts takes the UUID or the hostname of one host, and an order to it, got %q", words)
			case len(words) == 2:
				return orderHost(c, words[0], words[1])
			case len(words) == 1:
				return explainHost(c, words[0])
			}
			return listHosts(c)
		},
	}
}

func listHosts(c *cli.Context) error {
	if c.Int("limit") < 1 {
		return usageErrorf("--limit %d is not a number above 0", c.Int("limit"))
	}
	found, err := askHosts(c)
	if err != nil {
		return err
	}
	if err := knownGroup(c, found); err != nil {
		return err
	}
	if err := printAs(c, found, writeHosts); err != nil {
		return err
	}
	if more := found.Total - len(found.Hosts); more > 0 {
		fmt.Fprintf(c.App.ErrWriter, "and %d more: --limit shows them\n", more)
	}
	return nil
}

// knownGroup refuses a group that neither a host nor the schedule names: an empty list
// would look like a group without hosts.
func knownGroup(c *cli.Context, found adminapi.Hosts) error {
	group := c.String("group")
	if group == "" || found.Total > 0 {
		return nil
	}
	var now adminapi.Overview
	if err := newAdminClient(c).ask(c.Context, http.MethodGet, "/v1/overview", nil, &now); err != nil {
		return err
	}
	var names []string
	for _, g := range now.Groups {
		if g.Name == group {
			return nil
		}
		names = append(names, g.Name)
	}
	if c.IsSet("state") || c.IsSet("version") {
		var named adminapi.Hosts
		query := url.Values{"group": {group}, "limit": {"1"}}
		err := newAdminClient(c).ask(c.Context, http.MethodGet, "/v1/hosts?"+query.Encode(), nil, &named)
		if err != nil || named.Total > 0 {
			return err
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("no host names the group %q, and there is no rollout", group)
	}
	return fmt.Errorf("no host names the group %q, and the rollout has none of that name (there are: %s)", group, strings.Join(names, ", "))
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

// askHosts reads all pages of hosts from the server.
func askHosts(c *cli.Context) (all adminapi.Hosts, err error) {
	client := newAdminClient(c)
	query := url.Values{}
	for _, name := range []string{"group", "state", "version"} {
		if v := c.String(name); v != "" {
			query.Set(name, v)
		}
	}
	if v := c.String("version"); v != "" {
		query.Set("version", strings.TrimPrefix(v, "v")) // set-version takes the v, too
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
	case h.Order != "":
		return h.Order
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

func explainHost(c *cli.Context, name string) error {
	id, err := hostNamed(c, name)
	if err != nil {
		return err
	}
	answer, err := askWhy(c, id)
	if err != nil {
		return err
	}
	return printAs(c, answer, func(w io.Writer, answer hostWhy) error {
		_, err := io.WriteString(w, whyText(answer))
		return err
	})
}

// hostNamed returns the ID of a host, or of the only host with a hostname.
func hostNamed(c *cli.Context, name string) (id string, err error) {
	if id, isID := find.HostID(name); isID {
		return id, nil
	}
	var found adminapi.Hosts
	query := url.Values{"hostname": {name}, "limit": {"1000"}}
	if err := newAdminClient(c).ask(c.Context, http.MethodGet, "/v1/hosts?"+query.Encode(), nil, &found); err != nil {
		if c.Bool("as-if") && refused(err, http.StatusConflict) {
			return name, nil // the server takes no reports
		}
		return "", err
	}
	switch {
	case len(found.Hosts) == 1:
		return found.Hosts[0].ID, nil
	case len(found.Hosts) > 1:
		if err := printAs(c, found, writeHosts); err != nil {
			return "", err
		}
		return "", fmt.Errorf("%d hosts have reported the hostname %q: name one of them by its ID", found.Total, name)
	case c.Bool("as-if"):
		return name, nil
	}
	return "", unknownHost(fmt.Sprintf("no host has reported the hostname %q", name))
}

// unknownHost is the error for an unknown host: an answer for it would also be an answer
// for a misspelt name.
func unknownHost(what string) error {
	return fmt.Errorf("%s: nothing is known of it, and it is in no count; teleport-find hosts lists those that have joined, "+
		"--as-if says what such a host would be told", what)
}

// hostWhy is the answer to a host, why it gets it, and its last report.
type hostWhy struct {
	ID string `json:"id"`
	adminapi.Why
	// Reported is nil if the host has never reported to this server.
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
	} else if r, isRefusal := err.(*refusal); isRefusal && r.status != http.StatusNotFound && !c.Bool("as-if") {
		return why, err
	} else if !c.Bool("as-if") {
		return why, unknownHost("no host " + id + " has joined")
	}
	for flag, name := range map[string]string{"group": "group", "update-id": "update_id"} {
		if c.IsSet(flag) {
			query.Set(name, c.String(flag))
		}
	}
	return why, client.ask(c.Context, http.MethodGet, "/v1/why?"+query.Encode(), nil, &why.Why)
}

func whyText(h hostWhy) string {
	is := "is"
	if h.Reported == nil {
		is = "would be"
	}
	text := fmt.Sprintf("host %s %s told %s\n\nbecause:\n", console.Line(h.ID), is, strings.Replace(answerWords(h.Answer), "they are", "it is",
		1))
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
	lines := [][2]string{{"hostname", r.Hostname}, {"group", r.Group}, {"runs", strings.TrimSpace(r.Version + " " + r.Edition)}, {"state",
		string(r.State)}}
	if !r.LastSeen.IsZero() {
		lines = append(lines, [2]string{"last report", rollout.Clock(r.LastSeen)})
	}
	if r.Told != nil {
		lines = append(lines, [2]string{"told", r.Told.Target + ", " + rollout.Clock(r.Told.Time)})
	}
	if r.Begun != nil {
		lines = append(lines, [2]string{"began", r.Begun.Target + ", " + rollout.Clock(r.Begun.Time)})
	}
	if r.Failed != nil {
		lines = append(lines, [2]string{"failed", r.Failed.Target + ", " + rollout.Clock(r.Failed.Time) + ": " + firstLine(r.Failed.Error)})
	}
	if r.Omitted != "" {
		lines = append(lines, [2]string{"not counted", r.Omitted})
	}
	if r.LastSeen.IsZero() {
		text += "\nIt has joined, and has never reported:\n"
	} else {
		text += "\nIt has reported:\n"
	}
	for _, l := range lines {
		if l[1] != "" {
			text += fmt.Sprintf("  %-12s %s\n", l[0], console.Line(l[1]))
		}
	}
	return text
}
