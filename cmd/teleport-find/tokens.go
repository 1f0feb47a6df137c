package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server"
)

func tokensCommand() *cli.Command {
	const group = "teleport-find tokens "
	reason := func() cli.Flag { return &cli.StringFlag{Name: "reason", Usage: "`TEXT` that the history keeps"} }
	return &cli.Command{
		Name:  "tokens",
		Usage: "list, make and revoke the tokens that hosts join with, so that they can report",
		Description: `A host that is to report gets a token by "teleport-update enable --report-token-file FILE". It joins with it once, and
reports with a secret of its own from then on.`,
		UsageText:    group + "[-o table|json|yaml] | add NAME [--group G]… [--expires D] | revoke NAME",
		OnUsageError: onUsageError, HideHelpCommand: true,
		Flags: []cli.Flag{outputFlag("table"), adminSocketFlag()},
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "make a token, and print it: it is kept nowhere", OnUsageError: onUsageError,
				UsageText: group + "add NAME [--group G]… [--expires DURATION] [--reason TEXT] [-o table|json|yaml]",
				Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "group", Usage: "`NAME` of a group whose hosts may join with it, may be repeated (default: all)"},
					&cli.StringFlag{Name: "expires", Usage: "`DURATION` after which nobody joins with it any more, such as 24h (default: never)"},
					reason(), outputFlag("table"), adminSocketFlag(),
				},
				Action: func(c *cli.Context) error {
					name, err := oneWord(c, "the name of the new token")
					if err != nil {
						return err
					}
					var made server.AdminToken
					request := server.AdminTokenRequest{Name: name, Groups: c.StringSlice("group"), ExpiresIn: c.String("expires")}
					if err := newAdminClient(c).ask(c.Context, http.MethodPost, "/v1/tokens?"+reasonOf(c), request, &made); err != nil {
						return err
					}
					if c.String("output") != "table" {
						return printValue(c, made)
					}
					// The token alone, for a file: "teleport-find tokens add web > token".
					fmt.Fprintf(c.App.ErrWriter, "token %s was made, for hosts of %s; it is printed once, and kept nowhere\n", made.Name, groupsOf(made))
					_, err = fmt.Fprintln(c.App.Writer, made.Token)
					return err
				},
			},
			{
				Name: "revoke", Usage: "have nobody join with a token any more; hosts that have joined go on reporting", OnUsageError: onUsageError,
				UsageText: group + "revoke NAME [--reason TEXT]",
				Flags:     []cli.Flag{reason(), outputFlag("table"), adminSocketFlag()},
				Action: func(c *cli.Context) error {
					name, err := oneWord(c, "the name of a token")
					if err != nil {
						return err
					}
					var left server.AdminTokens
					if err := newAdminClient(c).ask(c.Context, http.MethodDelete, "/v1/tokens/"+url.PathEscape(name)+"?"+reasonOf(c), nil, &left); err != nil {
						return err
					}
					_, err = fmt.Fprintf(c.App.Writer, "token %s was revoked; hosts that have joined with it go on reporting (\"teleport-find revoke ID\" ends that for one)\n", name)
					return err
				},
			},
		},
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			if len(words) > 0 {
				return usageErrorf("tokens takes add or revoke, got %q", words[0])
			}
			var list server.AdminTokens
			if err := newAdminClient(c).ask(c.Context, http.MethodGet, "/v1/tokens", nil, &list); err != nil {
				return err
			}
			if c.String("output") != "table" {
				return printValue(c, list)
			}
			t := newTable("TOKEN", "FOR", "EXPIRES", "HOSTS", "CREATED", "BY")
			for _, one := range list.Tokens {
				expires := "never"
				if !one.Expires.IsZero() {
					expires = one.Expires.UTC().Format(time.DateTime)
				}
				t.row(one.Name, groupsOf(one), expires, fmt.Sprint(one.Hosts), one.Created.UTC().Format(time.DateTime), one.By)
			}
			return t.print(c.App.Writer)
		},
	}
}

func revokeCommand() *cli.Command {
	return &cli.Command{
		Name:         "revoke",
		Usage:        "have the server take no report of a host any more, until it joins again",
		UsageText:    "teleport-find revoke ID [--reason TEXT] [--admin-socket PATH]",
		Description:  `ID is the UUID in the host's /var/lib/teleport/host_uuid. A machine that was set up anew, or copied, cannot join before that.`,
		OnUsageError: onUsageError,
		Flags:        []cli.Flag{&cli.StringFlag{Name: "reason", Usage: "`TEXT` that the history keeps"}, outputFlag("table"), adminSocketFlag()},
		Action: func(c *cli.Context) error {
			id, err := oneWord(c, "the UUID of a host")
			if err != nil {
				return err
			}
			var host server.AdminHost
			if err := newAdminClient(c).ask(c.Context, http.MethodDelete, "/v1/hosts/"+url.PathEscape(id)+"?"+reasonOf(c), nil, &host); err != nil {
				return err
			}
			if c.String("output") != "table" {
				return printValue(c, host)
			}
			_, err = fmt.Fprintf(c.App.Writer, "host %s does not report any more; \"teleport-update enable --report-token-file FILE\" on it lets it join again\n", host.ID)
			return err
		},
	}
}

func oneWord(c *cli.Context, what string) (string, error) {
	words, err := wordsOf(c)
	if err == nil && len(words) != 1 {
		err = usageErrorf("%s takes %s, got %q", c.Command.Name, what, words)
	}
	if err != nil {
		return "", err
	}
	return words[0], nil
}

func reasonOf(c *cli.Context) string { return url.Values{"reason": {c.String("reason")}}.Encode() }

func groupsOf(t server.AdminToken) string {
	if len(t.Groups) == 0 {
		return "all groups"
	}
	return strings.Join(t.Groups, ", ")
}
