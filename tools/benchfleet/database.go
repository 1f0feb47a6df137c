package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"teleport-update/find/store/postgres"
	"teleport-update/find/store/postgres/pgtest"
)

// owner is what a test is for pgtest: it is told of what fails, and cleans up.
type owner struct {
	testing.TB
	cleanups []func()
}

// failure is what it panics with.
type failure struct{ error }

func (o *owner) Helper()          {}
func (o *owner) Cleanup(f func()) { o.cleanups = append(o.cleanups, f) }
func (o *owner) Fatal(args ...any) {
	panic(failure{errors.New(fmt.Sprint(args...))})
}
func (o *owner) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
func (o *owner) Skip(args ...any)                  { o.Fatal(args...) }

// database is a server of PostgreSQL with its defaults but for the sizes that its documentation advises.
type database struct {
	*pgtest.Server
	name string
}

func withDatabase(f func(*database) error) (err error) {
	o := new(owner)
	defer func() {
		for i := len(o.cleanups) - 1; i >= 0; i-- {
			o.cleanups[i]()
		}
		switch why := recover().(type) {
		case nil:
		case failure:
			err = why.error
		default:
			panic(why)
		}
	}()
	s := pgtest.StartAt(o, pgtest.Place{Settings: []string{"shared_buffers = 256MB", "max_wal_size = 2GB"}})
	s.Database("find")
	return f(&database{s, "find"})
}

func (d *database) open(ctx context.Context) (*postgres.Store, error) {
	return postgres.Open(ctx, postgres.Options{URL: pgtest.URL(d.name, d.Server)})
}

// written is what the database has written and done since its start.
type written struct{ bytes, pages, transactions, rows, size int64 }

func (d *database) written() (w written) {
	d.SQL(d.name, "SELECT pg_stat_force_next_flush()")
	out := d.SQL(d.name, `SELECT wal_bytes FROM pg_stat_wal;
		SELECT wal_fpi FROM pg_stat_wal;
		SELECT xact_commit FROM pg_stat_database WHERE datname = 'find';
		SELECT tup_inserted + tup_updated + tup_deleted FROM pg_stat_database WHERE datname = 'find';
		SELECT pg_database_size('find')`)
	fmt.Sscan(strings.ReplaceAll(out, "\n", " "), &w.bytes, &w.pages, &w.transactions, &w.rows, &w.size)
	return w
}

func (w written) since(before written) written {
	return written{w.bytes - before.bytes, w.pages - before.pages, w.transactions - before.transactions, w.rows - before.rows, w.size}
}
