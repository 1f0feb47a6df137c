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

func tokenCommand() *cli.Command {
	const group = "teleport-find token "
	return &cli.Command{
		Name:  "token",
		Usage: "list, make and revoke the tokens of hosts and of people at other machines",
		Description: `A host joins with a token, so that it can report: "teleport-update enable --report-token-file FILE". It joins with it
once, and reports with a secret of its own from then on.

With "serve --admin-listen", the server takes commands from other machines, by an access token, which has a role:

   teleport-find --server https://find.example.com:3444 --access-token-file FILE status

A viewer looks. An operator gives groups orders ("teleport-find rollout") and
may suspend updates, not enable them. A version-admin may do the same, and set the version; a config-admin may do what an operator
may, write autoupdate_config (its mode among it), make and revoke the join tokens of hosts, and revoke hosts, but not set
the version. An admin may do all of that. Access tokens are listed, made and revoked on the
server's own machine only.`,
		UsageText:    group + "[-o table|json|yaml] | add NAME | revoke NAME | revoke-host ID",
		OnUsageError: onUsageError, HideHelpCommand: true,
		Flags:       []cli.Flag{outputFlag("table"), adminSocketFlag()},
		Subcommands: []*cli.Command{addTokenCommand(group), revokeTokenCommand(group), revokeHostCommand(group)},
		Action: func(c *cli.Context) error {
			words, err := wordsOf(c)
			if err != nil {
				return err
			}
			if len(words) > 0 {
				return usageErrorf("token takes add, revoke or revoke-host, got %q", words[0])
			}
			return listTokens(c)
		},
	}
}

// allTokens is the output of "token".
type allTokens struct {
	adminapi.Tokens
	Access []adminapi.AccessToken `json:"access_tokens,omitempty"` // none at another machine than the server
}

func listTokens(c *cli.Context) error {
	client := newAdminClient(c)
	var all allTokens
	if err := client.ask(c.Context, http.MethodGet, "/v1/tokens", nil, &all.Tokens); err != nil {
		return err
	}
	if c.String("server") == "" {
		var access adminapi.AccessTokens
		if err := client.ask(c.Context, http.MethodGet, "/v1/access", nil, &access); err != nil {
			return err
		}
		all.Access = access.Tokens
	}
	return printAs(c, all, func(w io.Writer, all allTokens) error {
		t := newTable("TOKEN", "FOR", "EXPIRES", "HOSTS", "CREATED", "BY")
		for _, one := range all.Tokens.Tokens {
			t.row(one.Name, groupsOf(one), expiry(one.Expires), hostsOf(one), one.Created.UTC().Format(time.DateTime), one.By)
		}
		for _, one := range all.Access {
			t.row(one.Name, "access: "+string(one.Role), expiry(one.Expires), "-", one.Created.UTC().Format(time.DateTime), one.By)
		}
		return t.print(w)
	})
}

func addTokenCommand(group string) *cli.Command {
	return &cli.Command{
		Name: "add", Usage: "make a token, and print it: it is kept nowhere", OnUsageError: onUsageError,
		UsageText: group + "add NAME [--group G]… [--hosts N] [--expires DURATION] [--reason TEXT] [--dry-run] [-o table|json|yaml]\n" +
			group + "add NAME --role ROLE [--expires DURATION] [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "group", Usage: "`NAME` of a group whose hosts may join with it, may be repeated (default: all)"},
			&cli.IntFlag{Name: "hosts", Value: inventory.UsualHosts, Usage: "`NUMBER` of hosts that may have joined with it; a " +
				"host counts until it is forgotten or revoked"},
			&cli.StringFlag{Name: "role", Usage: "`viewer|operator|version-admin|config-admin|admin`: an access token for a person"},
			&cli.StringFlag{Name: "expires", Usage: "`DURATION` after which it expires, such as 24h (default: never)"},
		}, changeFlags()...),
		Action: func(c *cli.Context) error {
			name, err := oneWord(c, "the name of the new token")
			if err != nil {
				return err
			}
			if c.IsSet("role") {
				return addAccess(c, name)
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
	}
}

func addAccess(c *cli.Context, name string) error {
	if c.IsSet("group") || c.IsSet("hosts") {
		return usageErrorf("--role makes a token for a person: --group and --hosts are for tokens of hosts")
	}
	if c.String("role") == "" {
		return usageErrorf("which role? --role is one of %v", adminapi.Roles)
	}
	var made adminapi.AccessToken
	request := adminapi.AccessRequest{Name: name, Role: adminapi.Role(c.String("role")), ExpiresIn: c.String("expires")}
	if err := newAdminClient(c).ask(c.Context, http.MethodPost, "/v1/access?"+changeQuery(c), request, &made); err != nil {
		return err
	}
	return printToken(c, made, made.Token, "access token "+made.Name, "with the role "+string(made.Role))
}

func revokeTokenCommand(group string) *cli.Command {
	return &cli.Command{
		Name: "revoke", Usage: "revoke a token; without --hosts, hosts that have joined with it go on reporting", OnUsageError: onUsageError,
		UsageText: group + "revoke NAME [--hosts | --access] [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "hosts", Usage: "remove the hosts that have joined with it, too: they " +
				"do not report, and are not counted, until they join again"},
			&cli.BoolFlag{Name: "access", Usage: "revoke an access token"},
		}, changeFlags()...),
		Action: func(c *cli.Context) error {
			name, err := oneWord(c, "the name of a token")
			if err != nil {
				return err
			}
			switch {
			case c.Bool("access") && c.Bool("hosts"):
				return usageErrorf("no host joins with an access token: --hosts or --access, not both")
			case c.Bool("access"):
				return revoke(c, "/v1/access/", name, "", new(adminapi.AccessTokens), "access token "+name+" %s revoked")
			case c.Bool("hosts"):
				return revoke(c, "/v1/tokens/", name, "&hosts=true", new(adminapi.Tokens),
					"token "+name+" %s revoked, with the hosts that have joined with it")
			}
			return revoke(c, "/v1/tokens/", name, "", new(adminapi.Tokens),
				"token "+name+" %s revoked; hosts that have joined with it go on reporting (--hosts removes them)")
		},
	}
}

func revokeHostCommand(group string) *cli.Command {
	return &cli.Command{
		Name: "revoke-host", Usage: "remove a host: its reports are refused until it joins again", OnUsageError: onUsageError,
		UsageText: group + "revoke-host ID [--reason TEXT] [--dry-run] [-o table|json|yaml]",
		Description: `ID is what is in the host's /var/lib/teleport/host_uuid: a UUID, or ACCOUNT-INSTANCE on EC2. A machine ` +
			`that was installed again, or copied, cannot join before this.`,
		Flags: changeFlags(),
		Action: func(c *cli.Context) error {
			id, err := oneWord(c, "the UUID of a host")
			if err != nil {
				return err
			}
			if known, ok := find.HostID(id); ok {
				id = known
			}
			return revoke(c, "/v1/hosts/", id, "", new(adminapi.Host), "host "+id+" %s revoked, and it does not report any more; "+
				"\"teleport-update enable --report-token-file FILE\" on it lets it join again")
		},
	}
}

// revoke has the server revoke something, and prints its answer or, as a table, a line: %s in the text is "was".
func revoke(c *cli.Context, path, name, query string, answer any, text string) error {
	path += url.PathEscape(name) + "?" + changeQuery(c) + query
	if err := newAdminClient(c).ask(c.Context, http.MethodDelete, path, nil, answer); err != nil {
		return err
	}
	return printDone(c, answer, text)
}

func expiry(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.DateTime)
}

// changeQuery has the parameters of a change by changeFlags.
func changeQuery(c *cli.Context) string {
	return url.Values{"reason": {c.String("reason")}, "dry_run": {strconv.FormatBool(c.Bool("dry-run"))}}.Encode()
}

// printToken prints only the new token: "teleport-find token add web > token".
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
