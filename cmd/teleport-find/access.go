package main

import (
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/server/adminapi"
)

func accessCommand() *cli.Command {
	const group = "teleport-find access "
	return &cli.Command{
		Name:  "access",
		Usage: "list, make and revoke the tokens of people who are at another machine than the server",
		Description: `With "serve --admin-listen", the server takes commands from other machines, by an access token:

   teleport-find --server https://find.example.com:3444 --access-token-file FILE status

A token has a role. A viewer looks. An operator gives groups orders (start-update, mark-done, rollback, retry, reset) and
may suspend updates, not enable them. A version-admin may do the same, and set the version; a config-admin may do what an operator
may, write autoupdate_config (enable and disable among it), make and revoke the join tokens of hosts, and revoke hosts, but not set
the version. An admin may do all of that. Access tokens are made and revoked on the
server's own machine only.`,
		UsageText:    group + "[-o table|json|yaml] | add NAME --role ROLE [--expires D] | revoke NAME",
		OnUsageError: onUsageError, HideHelpCommand: true,
		Flags: []cli.Flag{outputFlag("table"), adminSocketFlag()},
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "make a token, and print it: it is kept nowhere", OnUsageError: onUsageError,
				UsageText: group + "add NAME --role viewer|operator|version-admin|config-admin|admin [--expires DURATION] [--reason " +
					"TEXT] [--dry-run] [-o table|json|yaml]",
				Flags: append([]cli.Flag{
					&cli.StringFlag{Name: "role", Usage: "`viewer|operator|version-admin|config-admin|admin`"},
					&cli.StringFlag{Name: "expires", Usage: "`DURATION` after which it expires, such as 24h (default: never)"},
				}, changeFlags()...),
				Action: func(c *cli.Context) error {
					name, err := oneWord(c, "the name of the new token")
					if err != nil {
						return err
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
				},
			},
			revokeOne[adminapi.AccessTokens](group, "/v1/access/", "revoke an access token", func(_ *cli.Context, name string) (url.Values, string) {
				return nil, "access token " + name + " %s revoked"
			}),
		},
		Action: func(c *cli.Context) error {
			if err := addOrRevoke(c); err != nil {
				return err
			}
			return show(c, "/v1/access", func(w io.Writer, list adminapi.AccessTokens) error {
				t := newTable("TOKEN", "ROLE", "EXPIRES", "CREATED", "BY")
				for _, one := range list.Tokens {
					t.row(one.Name, string(one.Role), expiry(one.Expires), one.Created.UTC().Format(time.DateTime), one.By)
				}
				return t.print(w)
			})
		},
	}
}
