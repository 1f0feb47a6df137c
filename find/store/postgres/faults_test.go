package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"teleport-update/find/store"
	"teleport-update/find/store/postgres/pgtest"
)

// Each fault is one sentence: what has happened, that the store is as it was, and what to do; then the database's words.
func TestFaultsOfADatabaseSayWhatToDo(t *testing.T) {
	server := pgtest.Start(t)
	server.SQL("postgres", "SET password_encryption = 'scram-sha-256'; CREATE ROLE finder LOGIN PASSWORD 'sesame'; CREATE ROLE nobody LOGIN PASSWORD 'sesame'")
	server.SQL("postgres", "CREATE DATABASE find OWNER finder")
	network := server.ListenTLS(time.Now().Add(time.Hour), []string{"localhost"},
		"hostssl find,none,theirs all 127.0.0.0/8 scram-sha-256\nhostnossl all all 127.0.0.0/8 reject")
	password := filepath.Join(t.TempDir(), "password")
	wrong := password + ".wrong"
	for name, text := range map[string]string{password: "sesame\n", wrong: "sesame2\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := func(user, at, database string) string {
		return "postgres://" + user + "@" + at + "/" + database + "?" + url.Values{"sslrootcert": {network.CA}, "connect_timeout": {"1"}}.Encode()
	}
	good := Options{URL: address("finder", network.Address, "find"), PasswordFile: password}
	first, err := Open(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()

	host, _, _ := strings.Cut(network.Address, ":")
	for _, c := range []struct {
		name   string
		o      Options
		before string // SQL in the database find
		after  string
		want   string // what has happened
		fix    string
		away   bool
	}{
		{name: "wrong password", o: Options{URL: good.URL, PasswordFile: wrong}, want: "user or password is wrong", fix: "--store-password-file"},
		{name: "no password", o: Options{URL: good.URL}, want: "user or password is wrong", fix: "--store-password-file"},
		{name: "no such user", o: Options{URL: address("ghost", network.Address, "find"), PasswordFile: password}, want: "user or password is wrong", fix: "the user in --store"},
		{name: "no such database", o: Options{URL: address("finder", network.Address, "none"), PasswordFile: password}, want: "no database of that name", fix: "CREATE DATABASE"},
		{name: "no line of pg_hba.conf", o: Options{URL: address("finder", network.Address, "postgres"), PasswordFile: password}, want: "does not let this server in", fix: "pg_hba.conf"},
		{name: "no TLS wanted", o: Options{URL: good.URL + "&sslmode=disable", PasswordFile: password}, want: "does not let this server in", fix: "pg_hba.conf"},
		{name: "another authority", o: Options{URL: "postgres://finder@" + network.Address + "/find", PasswordFile: password}, want: "authority that is not trusted", fix: "sslrootcert"},
		{name: "nothing listens", away: true, o: Options{URL: address("finder", host+":5433", "find"), PasswordFile: password}, want: "nothing listens", fix: "listen_addresses"},
		{name: "no socket", away: true, o: Options{URL: "postgres://finder@/find?host=/run/no-such-folder"}, want: "no socket of a database", fix: "listens there"},
		{name: "a name that is none", away: true, o: Options{URL: address("finder", "no-such-host.invalid:5432", "find"), PasswordFile: password}, want: "cannot be resolved", fix: "getent hosts"},
		{name: "no right to connect", o: Options{URL: address("nobody", network.Address, "find"), PasswordFile: password},
			before: "REVOKE CONNECT ON DATABASE find FROM PUBLIC", after: "GRANT CONNECT ON DATABASE find TO PUBLIC", want: "or not connect", fix: "GRANT CONNECT"},
		{name: "no right on the schema", o: Options{URL: address("nobody", network.Address, "find"), PasswordFile: password}, want: "lacks a right", fix: "grant USAGE"},
		{name: "no right on a table", o: good, before: "ALTER TABLE teleport_find.head OWNER TO postgres", after: "ALTER TABLE teleport_find.head OWNER TO finder",
			want: "lacks a right", fix: "SELECT, INSERT, UPDATE and DELETE"},
		{name: "a schema of somebody else", o: Options{URL: address("nobody", network.Address, "theirs"), PasswordFile: password},
			before: "CREATE DATABASE theirs", want: "may not make the schema", fix: "CREATE SCHEMA teleport_find AUTHORIZATION"},
		{name: "too many connections", away: true, o: good, before: "ALTER ROLE finder CONNECTION LIMIT 0", after: "ALTER ROLE finder CONNECTION LIMIT -1",
			want: "too many connections", fix: "max_connections"},
		{name: "a table of another version", o: good, before: "ALTER TABLE teleport_find.head RENAME COLUMN schema TO scheme", after: "ALTER TABLE teleport_find.head RENAME COLUMN scheme TO schema",
			want: "other columns", fix: "upgrade this program"},
		{name: "no row in the head", o: good, before: "CREATE TABLE kept AS SELECT * FROM teleport_find.head; DELETE FROM teleport_find.head",
			after: "INSERT INTO teleport_find.head SELECT * FROM kept; DROP TABLE kept", want: "about itself is missing", fix: "backup"},
		{name: "a newer schema", o: good, before: "UPDATE teleport_find.head SET schema = 99", after: "UPDATE teleport_find.head SET schema = 1", want: "newer version of this program", fix: "upgrade this one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.before != "" {
				server.SQL("find", c.before)
			}
			_, err := Open(t.Context(), c.o)
			if c.after != "" {
				server.SQL("find", c.after)
			}
			sentence(t, err, c.want, c.fix)
			if Away(err) != c.away {
				t.Errorf("a server waits for it: %v; want %v", !c.away, c.away)
			}
		})
	}
}

// sentence asserts the form of an explanation.
func sentence(t *testing.T, err error, want, fix string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one of %q", want)
	}
	text := err.Error()
	if !strings.Contains(text, want) || !strings.Contains(text, fix) || strings.Contains(text, "sesame") {
		t.Errorf("it says\n%s\nwant %q and %q", text, want, fix)
	}
	if !strings.Contains(text, "the store is as it was") && !strings.Contains(text, "leaves the store as it is") && !strings.Contains(text, "newer version") {
		t.Errorf("it does not say what state the store is in:\n%s", text)
	}
	t.Log(text)
}

// What is wrong with TLS, or with the kind of the server.
func TestFaultsOfTLSSayWhatToDo(t *testing.T) {
	server := pgtest.Start(t)
	server.Database("find")
	t.Run("a standby alone", func(t *testing.T) {
		standby := server.Standby()
		_, err := Open(t.Context(), Options{URL: pgtest.URL("find", standby)})
		sentence(t, err, "it is a standby", "name all of the database's hosts")
		if !Away(err) {
			t.Error("a server does not wait for a promotion")
		}
	})
	hour := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name, want, fix string
		until           time.Time
		settings        string
	}{
		{"another name", "for another name", "issue a certificate", hour, "ssl_cert_file = 'other.pem'"},
		{"an old certificate", "not valid", "renew it", time.Now().Add(-time.Hour), ""},
		{"no TLS", "does not speak TLS", "ssl = on", hour, "ssl = off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			network := server.ListenTLS(c.until, nil, "host all all 127.0.0.0/8 trust")
			if c.settings != "" {
				server.Configure(c.settings)
			}
			o := Options{URL: "postgres://postgres@" + network.Address + "/find?" + url.Values{"sslrootcert": {network.CA}}.Encode()}
			_, err := Open(t.Context(), o)
			sentence(t, err, c.want, c.fix)
			if Away(err) {
				t.Error("a server waits for a person in silence")
			}
		})
	}
}

// What happens to a connection amid a statement.
func TestAConnectionThatEndsAmidAStatementIsExplained(t *testing.T) {
	server := pgtest.Start(t)
	s := opened(t, server.Database("find"))
	for _, c := range []struct {
		name, want string
		end        func()
	}{
		{"ended by somebody", "ended the connection", func() {
			server.SQL("find", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")
		}},
		{"killed", "was cut", server.Kill},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.pool.Reset()
			err := s.pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
				go func() {
					time.Sleep(500 * time.Millisecond)
					c.end()
				}()
				_, err := conn.Exec(t.Context(), "SELECT pg_sleep(60)")
				return err
			})
			sentence(t, explain(err), c.want, "tried again by itself")
		})
	}
}

// What happens to a store that is open.
func TestFaultsOfAnOpenStoreSayWhatToDo(t *testing.T) {
	server := pgtest.Start(t)
	s := opened(t, server.Database("find"))
	at := put(t, s, "a", "1", store.None)
	change := func(ctx context.Context) error {
		_, err := s.Put(ctx, "a", []byte("2"), at)
		return err
	}
	for _, c := range []struct{ name, before, after, want, fix string }{
		{"read only", "ALTER DATABASE find SET default_transaction_read_only = on", "ALTER DATABASE find SET default_transaction_read_only = off", "read-only by a setting", "default_transaction_read_only of the server"},
		{"a table that was dropped", "ALTER TABLE teleport_find.resources RENAME TO gone", "ALTER TABLE teleport_find.gone RENAME TO resources", "a table of the store is missing", "backup"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server.SQL("find", c.before)
			s.pool.Reset()
			err := change(t.Context())
			server.SQL("postgres", "ALTER DATABASE find RESET ALL")
			server.SQL("find", "SET default_transaction_read_only = off; "+c.after)
			s.pool.Reset()
			sentence(t, err, c.want, c.fix)
		})
	}
	// What cannot be provoked in a second: the code is the database's own, as it sends it.
	for code, want := range map[string]string{
		"53100": "the disk of the database is full", "53200": "out of memory", "53400": "lacks something", "57014": "took too long", "57P03": "starting, stopping",
		"55P03": "holds the store's lock", "40001": "could not serialize", "40P01": "deadlock", "42883": "lacks a function of PostgreSQL", "3F000": "schema teleport_find is missing",
		"58030": "cannot use its files", "XX001": "damaged", "25P03": "silent for too long",
	} {
		t.Run(code, func(t *testing.T) {
			_, err := s.pool.Exec(t.Context(), "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '"+code+"'; END $$")
			sentence(t, explain(err), want, ": ")
		})
	}
	t.Run("killed", func(t *testing.T) {
		server.Kill()
		sentence(t, change(t.Context()), "nothing listens at the address", "listens there")
	})
	// Of a change of which nobody knows what became of it, nobody says that the store is as it was.
	unknown := explain(fmt.Errorf("x: %w", &store.UnknownError{Err: errors.New("cut")}))
	if strings.Contains(unknown.Error(), "as it was") {
		t.Errorf("of a change that may have been made it says %q", unknown)
	}
}
