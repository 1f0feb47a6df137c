package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

// orderHost gives a host an order of its own, and prints the answer that it gets.
func orderHost(c *cli.Context, name, action string) error {
	order := adminapi.HostOrder{To: c.String("to"), Reason: c.String("reason")}
	if err := order.Action.UnmarshalText([]byte(action)); err != nil {
		return usageErrorf("an order to a host is update, hold or release, got %q", action)
	}
	if text := c.String("until"); text != "" {
		var err error
		if order.Until, err = momentOf(text); err != nil {
			return err
		}
	}
	id, err := hostNamed(c, name)
	if err != nil {
		return err
	}
	path := "/v1/hosts/" + url.PathEscape(id) + "?dry_run=" + strconv.FormatBool(c.Bool("dry-run"))
	var host adminapi.Host
	if err := newAdminClient(c).ask(c.Context, http.MethodPost, path, order, &host); err != nil {
		return err
	}
	if c.Bool("dry-run") {
		_, err := fmt.Fprintln(c.App.Writer, "the order would be taken; nothing was changed (a dry run)")
		return err
	}
	if order.Action == rollout.ReleaseHost && host.Revoked {
		_, err := fmt.Fprintf(c.App.Writer, "host %s has no order any more; no host of this ID has joined\n", id)
		return err
	}
	return explainHost(c, id)
}

// momentOf reads a time, or a duration from now.
func momentOf(text string) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now().Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usageErrorf("--until %q is neither a time, such as %s, nor a duration, such as 4h", text,
			now().UTC().Add(24*time.Hour).Format(time.RFC3339))
	}
	return at, nil
}
