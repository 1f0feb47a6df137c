package main

import (
	"context"
	"errors"
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

// openStore opens a file or a database, or a store in memory if there is no address.
func openStore(ctx context.Context, address, passwordFile string) (openedStore, error) {
	if address == "" {
		return store.OpenMemory(ctx)
	}
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
	switch {
	case address == "":
		return "in memory"
	case postgres.IsURL(address):
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

func passwordFileFlag(env string) cli.Flag {
	return &cli.StringFlag{
		Name: "store-password-file", EnvVars: []string{env}, TakesFile: true,
		Usage: "`FILE` with the password of the user of a --store in PostgreSQL, read again for each connection",
	}
}
