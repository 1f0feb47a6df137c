package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/urfave/cli/v2"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/notify"
	"teleport-update/find/server/parts"
	"teleport-update/internal/failure"
)

// newHooks returns the Notifier for the webhooks of a store.
func newHooks(a *source) *notify.Notifier {
	return notify.New(notify.Options{
		Store: a.store, Server: serverName(), Version: version, Clock: now, Log: a.log,
		Blocked:   a.blocked,
		Delivered: func(r notify.Result) { a.metrics.Delivered(string(r)) },
	})
}

// failingWebhooks counts the webhooks that cannot get an event from this server.
func (a *source) failingWebhooks() (failing int) {
	for _, h := range a.hooks.Hooks() {
		if !h.Failing.IsZero() {
			failing++
		}
	}
	return failing
}

// webhooks adapts a Notifier to the admin API.
type webhooks struct{ notifier *notify.Notifier }

func (h webhooks) Test(ctx context.Context, name string) error {
	err := h.notifier.Test(ctx, name)
	if _, not := errors.AsType[*notify.UndeliveredError](err); not {
		return parts.Refuse(err)
	}
	return err
}

func (h webhooks) Trouble() []string { return h.notifier.Trouble() }

func notifyCommand() *cli.Command {
	const group = "teleport-find notify "
	return &cli.Command{
		Name:  "notify",
		Usage: "try and remove the webhooks that are told when a rollout halts",
		Description: `A webhook is a resource autoupdate_notify, which "teleport-find apply" writes: a URL, a file with the secret of its
signature, and the kinds of events that it is for (halted, stalled, failed, blocked, done, retried). The server that makes a
change posts its event, three times at most within ten minutes. "teleport-find status" names the webhooks that miss events.`,
		UsageText:    group + "test NAME | remove NAME",
		OnUsageError: onUsageError, HideHelpCommand: true,
		Subcommands: []*cli.Command{
			{
				Name: "test", Usage: "have the server post a test event to a webhook, and say what came of it", OnUsageError: onUsageError,
				UsageText: group + "test NAME [-o table|json|yaml]",
				Flags:     []cli.Flag{outputFlag("table"), adminSocketFlag()},
				Action: func(c *cli.Context) error {
					name, err := oneWord(c, "the name of a webhook")
					if err != nil {
						return err
					}
					err = newAdminClient(c).ask(c.Context, http.MethodPost, "/v1/notify/"+url.PathEscape(name)+"/test", nil, &adminapi.Error{})
					if f, is := errors.AsType[*failure.Error](err); is {
						return f.What // a test writes nothing
					}
					if err != nil {
						return err
					}
					if c.String("output") != "table" {
						return printValue(c, struct {
							Taken string `json:"taken"`
						}{name})
					}
					_, err = fmt.Fprintf(c.App.Writer, "webhook %s has taken a test event\n", name)
					return err
				},
			},
			{
				Name: "remove", Usage: "remove a webhook, and the events that wait for it", OnUsageError: onUsageError,
				UsageText: group + "remove NAME [--reason TEXT] [--dry-run] [-o table|json|yaml]",
				Flags:     changeFlags(),
				Action: func(c *cli.Context) error {
					name, err := oneWord(c, "the name of a webhook")
					if err != nil {
						return err
					}
					path := "/v1/resources/" + rollout.KindNotify + "/" + url.PathEscape(name) + "?" + changeQuery(c)
					if err := newAdminClient(c).ask(c.Context, http.MethodDelete, path, nil, &adminapi.Error{}); err != nil {
						return err
					}
					return printDone(c, struct {
						Removed string `json:"removed"`
					}{name}, "webhook "+name+" %s removed")
				},
			},
		},
		Action: needsWord("notify test|remove NAME"),
	}
}
