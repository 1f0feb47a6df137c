package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres"
)

// openedStore is a store of either kind.
type openedStore interface {
	store.Store
	store.Movable
	io.Closer
}

// openStore opens a file, or a database.
func openStore(ctx context.Context, address, passwordFile string) (openedStore, error) {
	if postgres.IsURL(address) {
		return postgres.Open(ctx, postgres.Options{URL: address, PasswordFile: passwordFile})
	}
	if passwordFile != "" {
		return nil, errors.New("--store-password-file is for a database, and --store is a file")
	}
	return store.OpenSQLite(ctx, address)
}

// storeName is a store's address for logs, without secrets.
func storeName(address string) string {
	if postgres.IsURL(address) {
		return postgres.Name(address)
	}
	return address
}

// clockOf returns a store's clock if it is another machine's. It returns nil for a file, whose clock is this
// machine's.
func clockOf(s store.Store) func(context.Context) (time.Time, error) {
	if _, elsewhere := s.(*postgres.Store); elsewhere {
		return s.Now
	}
	return nil
}

// fileOnly refuses a database for commands that need a file.
func fileOnly(c *cli.Context) error {
	if address := c.String("store"); postgres.IsURL(address) {
		return usageErrorf("%s is a database: back it up with pg_dump or its own tools, "+
			"and put it back with pg_restore while no server runs; or take it into a file with teleport-find store copy", postgres.Name(address))
	}
	return nil
}

func passwordFileFlag(env string) cli.Flag {
	return &cli.StringFlag{
		Name: "store-password-file", EnvVars: []string{env}, TakesFile: true,
		Usage: "`FILE` with the password of the user of a --store in PostgreSQL, read again for each connection",
	}
}

func storeCommand() *cli.Command {
	return &cli.Command{
		Name:  "store",
		Usage: "copy the store to another kind of store", HideHelpCommand: true, OnUsageError: onUsageError,
		Subcommands: []*cli.Command{{
			Name:      "copy",
			Usage:     "copy all of a store to an empty one, or nothing",
			UsageText: "teleport-find store copy FROM TO [--from-password-file FILE] [--to-password-file FILE] [-o table|json|yaml]",
			Description: `FROM and TO are files, or databases of PostgreSQL: postgres://USER@HOST/DATABASE?sslrootcert=FILE. Stop the servers that
use FROM first, or what they write meanwhile is not in the copy; then start them with --store TO.

The copy is one change: after an error, TO is as empty as it was. It keeps the identity of the store, all items with
their revisions, and the history; it begins a new epoch, so that servers read all of it again. Run it as the user of
the server: a file belongs to who makes it.`,
			OnUsageError: onUsageError,
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "from-password-file", TakesFile: true, Usage: "`FILE` with the password of FROM's user"},
				&cli.StringFlag{Name: "to-password-file", TakesFile: true, Usage: "`FILE` with the password of TO's user"},
				outputFlag("table"),
			},
			Action: copyStore,
		}},
	}
}

func copyStore(c *cli.Context) (err error) {
	addresses, err := wordsOf(c)
	if err != nil {
		return err
	}
	if len(addresses) != 2 {
		return usageErrorf("store copy takes two stores, FROM and TO, got %d words", len(addresses))
	}
	if addresses[0] == addresses[1] {
		return usageErrorf("FROM and TO are the same store")
	}
	var both [2]openedStore
	for i, flag := range []string{"from-password-file", "to-password-file"} {
		if both[i], err = openStore(c.Context, addresses[i], c.String(flag)); err != nil {
			return err
		}
		defer both[i].Close()
	}
	made, err := store.Copy(c.Context, both[0], both[1])
	if err != nil {
		return fmt.Errorf("%w; nothing was copied", err)
	}
	if c.String("output") != "table" {
		return printValue(c, copiedStore{storeName(addresses[1]), made.ID, made.Items, made.From, made.To})
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s holds %d items of the store %s, revision %d; it begins a new epoch with revision %d\n",
		storeName(addresses[1]), made.Items, made.ID, made.From, made.To)
	return err
}

// copiedStore is the result of a copy, for programs.
type copiedStore struct {
	To          string         `json:"to"`
	ID          string         `json:"id"`
	Items       int            `json:"items"`
	Revision    store.Revision `json:"revision"`
	NewRevision store.Revision `json:"new_revision"`
}
