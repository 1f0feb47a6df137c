package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres/pgtest"
)

// A store behind pgbouncer is opened in the session mode alone, whichever session pgbouncer gives out next and however many
// of them are idle; and leaves no setting behind for other clients.
func TestAPoolerThatSharesSessionsIsRefused(t *testing.T) {
	server := pgtest.Start(t)
	server.Database("find")
	for _, c := range []struct {
		name     string
		settings []string
		idle     int // sessions of other clients, which pgbouncer keeps
		shared   bool
	}{
		{"session", []string{"pool_mode = session"}, 0, false},
		{"session after others", []string{"pool_mode = session"}, 3, false},
		{"transaction", []string{"pool_mode = transaction"}, 0, true},
		{"transaction after others", []string{"pool_mode = transaction"}, 3, true},
		{"transaction in turn", []string{"pool_mode = transaction", "server_round_robin = 1"}, 3, true},
		{"transaction with one session", []string{"pool_mode = transaction", "default_pool_size = 1"}, 1, true},
		{"transaction with settings that pass", []string{"pool_mode = transaction", "ignore_startup_parameters = lock_timeout,extra_float_digits"}, 0, true},
		{"statement", []string{"pool_mode = statement"}, 0, true},
		{"one user in transactions", []string{"pool_mode = session", "[users]", "postgres = pool_mode=transaction"}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := server.Pooler("find", c.settings...)
			var others []*pgx.Conn
			for range c.idle {
				other := connected(t, address)
				if _, err := other.Exec(t.Context(), "BEGIN"); err != nil {
					t.Fatal(err)
				}
				others = append(others, other)
			}
			for _, other := range others {
				if err := other.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(t.Context(), Options{URL: address})
			if c.shared {
				if err == nil || !strings.Contains(err.Error(), "set pool_mode = session") || Away(err) {
					t.Errorf("it ends with %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				put(t, s, c.name, "1", store.None)
				limit := ""
				if err := s.pool.QueryRow(t.Context(), "SHOW lock_timeout").Scan(&limit); err != nil || limit != "10s" {
					t.Errorf("the session waits %s for a lock, %v", limit, err)
				}
				s.Close()
			}
			after := ""
			if err := connected(t, address).QueryRow(t.Context(), "SHOW lock_timeout").Scan(&after); err != nil || after != "0" {
				t.Errorf("another client's session waits %s for a lock, %v", after, err)
			}
		})
	}
}

func connected(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSoon(c) })
	return c
}
