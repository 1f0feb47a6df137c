package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/inventory"
)

func tokensCommand() *cli.Command {
	const group = "teleport-find tokens "
	return &cli.Command{
		Name:  "tokens",
		Usage: "list, make and revoke the tokens that hosts join with, so that they can report",
		Description: `A host that is to report gets a token by "teleport-update enable --report-token-file FILE". It joins with it once, and
reports with a secret of its own from then on.`,
		UsageText:    group + "[-o table|json|yaml] | add NAME [--group G]… [--expires D] [--hosts N] | revoke NAME [--hosts]",
		OnUsageError: onUsageError, HideHelpCommand: true,
		Flags: []cli.Flag{outputFlag("table"), adminSocketFlag()},
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "make a token, and print it: it is kept nowhere", OnUsageError: onUsageError,
				UsageText: group + "add NAME [--group G]… [--expires DURATION] [--hosts N] [--reason TEXT] [--dry-run] [-o table|json|yaml]",
				Flags: append([]cli.Flag{
					&cli.StringSliceFlag{Name: "group", Usage: "`NAME` of a group whose hosts may join with it, may be repeated (default: all)"},
					&cli.StringFlag{Name: "expires", Usage: "`DURATION` after which it expires, such as 24h (default: never)"},
					&cli.IntFlag{Name: "hosts", Value: inventory.UsualHosts, Usage: "`NUMBER` of hosts that may have joined with it; a " +
						"host counts until it is forgotten or revoked"},
				}, changeFlags()...),
				Action: func(c *cli.Context) error {
					name, err := oneWord(c, "the name of the new token")
					if err != nil {
						return err
					}
					var made adminapi.Token
					request := adminapi.TokenRequest{Name: name, Groups: c.StringSlice("group"), ExpiresIn: c.String("expires"), MaxHosts: c.Int("hosts")}
					if request.MaxHosts < 1 {
						return usageErrorf("--hosts %d is not a number from 1 on", request.MaxHosts)
					}
					if err := newAdminClient(c).ask(c.Context, http.MethodPost, "/v1/tokens?"+changeQuery(c), request, &made); err != nil {
						return err
					}
					return printToken(c, made, made.Token, "token "+made.Name, "for hosts of "+groupsOf(made))
				},
			},
			revokeTokenCommand(group),
		},
		Action: func(c *cli.Context) error {
			if err := addOrRevoke(c); err != nil {
				return err
			}
			return show(c, "/v1/tokens", func(w io.Writer, list adminapi.Tokens) error {
				t := newTable("TOKEN", "FOR", "EXPIRES", "HOSTS", "CREATED", "BY")
				for _, one := range list.Tokens {
					t.row(one.Name, groupsOf(one), expiry(one.Expires), hostsOf(one), one.Created.UTC().Format(time.DateTime), one.By)
				}
				return t.print(w)
			})
		},
	}
}

// revokeOne returns a command that revokes a token by its name. It prints the remaining tokens or, as a table,
// a line.
func revokeOne[Left any](group, path, usage string, done func(c *cli.Context, name string) (query url.Values, done string)) *cli.Command {
	return &cli.Command{
		Name: "revoke", Usage: usage, OnUsageError: onUsageError,
		UsageText: group + "revoke NAME [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Flags:     changeFlags(),
		Action: func(c *cli.Context) error {
			name, err := oneWord(c, "the name of a token")
			if err != nil {
				return err
			}
			var left Left
			query, text := done(c, name)
			if err := newAdminClient(c).ask(c.Context, http.MethodDelete, path+url.PathEscape(name)+"?"+changeQuery(c)+"&"+query.Encode(), nil,
				&left); err != nil {
				return err
			}
			return printDone(c, left, text)
		},
	}
}

func revokeTokenCommand(group string) *cli.Command {
	revoke := revokeOne[adminapi.Tokens](group, "/v1/tokens/", "revoke a join token; without --hosts, hosts that have joined go on reporting",
		func(c *cli.Context, name string) (url.Values, string) {
			if c.Bool("hosts") {
				return url.Values{"hosts": {"true"}}, "token " + name + " %s revoked, with the hosts that have joined with it"
			}
			return nil, "token " + name + " %s revoked; hosts that have joined with it go on reporting (--hosts removes them)"
		})
	revoke.UsageText = group + "revoke NAME [--hosts] [--reason TEXT] [--dry-run] [-o table|json|yaml]"
	revoke.Flags = append([]cli.Flag{&cli.BoolFlag{Name: "hosts", Usage: "remove the hosts that have joined with it, too: they " +
		"do not report, and are not counted, until they join again"}}, revoke.Flags...)
	return revoke
}

// addOrRevoke is wordsOf for a command whose subcommands change the list that it prints.
func addOrRevoke(c *cli.Context) error {
	words, err := wordsOf(c)
	if err == nil && len(words) > 0 {
		err = usageErrorf("%s takes add or revoke, got %q", c.Command.Name, words[0])
	}
	return err
}

func expiry(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.DateTime)
}

func revokeCommand() *cli.Command {
	return &cli.Command{
		Name:      "revoke",
		Usage:     "remove a host: its reports are refused until it joins again",
		UsageText: "teleport-find revoke ID [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: `ID is what is in the host's /var/lib/teleport/host_uuid: a UUID, or ACCOUNT-INSTANCE on EC2. A machine ` +
			`that was installed again, or copied, cannot join before this.`,
		OnUsageError: onUsageError,
		Flags:        changeFlags(),
		Action: func(c *cli.Context) error {
			id, err := oneWord(c, "the UUID of a host")
			if err != nil {
				return err
			}
			if known, ok := find.HostID(id); ok {
				id = known
			}
			var host adminapi.Host
			if err := newAdminClient(c).ask(c.Context, http.MethodDelete, "/v1/hosts/"+url.PathEscape(id)+"?"+changeQuery(c), nil,
				&host); err != nil {
				return err
			}
			return printDone(c, host, "host "+host.ID+" %s revoked, and it does not report any more; \"teleport-update enable "+
				"--report-token-file FILE\" on it lets it join again")
		},
	}
}

// changeQuery has the parameters of a change by changeFlags.
func changeQuery(c *cli.Context) string {
	return url.Values{"reason": {c.String("reason")}, "dry_run": {strconv.FormatBool(c.Bool("dry-run"))}}.Encode()
}

// printToken prints only the new token: "teleport-find tokens add web > token".
func printToken(c *cli.Context, made any, secret, name, scope string) error {
	if c.String("output") != "table" {
		return printValue(c, made)
	}
	if c.Bool("dry-run") {
		_, err := fmt.Fprintf(c.App.Writer, "%s would be made, %s (a dry run)\n", name, scope)
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "%s was made, %s; it is printed once, and kept nowhere\n", name, scope)
	_, err := fmt.Fprintln(c.App.Writer, secret)
	return err
}

// printDone prints what was done; %s in the text is "was", or "would be".
func printDone(c *cli.Context, left any, text string) error {
	if c.String("output") != "table" {
		return printValue(c, left)
	}
	was, end := "was", ""
	if c.Bool("dry-run") {
		was, end = "would be", " (a dry run)"
	}
	_, err := fmt.Fprintf(c.App.Writer, text+end+"\n", was)
	return err
}

// hostsOf says how many hosts have joined with a token, and how many may.
func hostsOf(t adminapi.Token) string {
	if t.MaxHosts == 0 {
		return fmt.Sprint(t.Hosts)
	}
	return fmt.Sprintf("%d of %d", t.Hosts, t.MaxHosts)
}

func groupsOf(t adminapi.Token) string {
	if len(t.Groups) == 0 {
		return "all groups"
	}
	return strings.Join(t.Groups, ", ")
}
