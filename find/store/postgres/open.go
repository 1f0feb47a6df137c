package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"teleport-update/internal/regular"
)

// schemaVersion is the version of the schema that create makes.
const schemaVersion = 1

// create makes the tables. Keys compare by their bytes. head has one row: the revision of the store, the identity, the
// timeline of the last change, and the revision up to which removals have been forgotten. commits has marks of the last
// changes, in the order of their numbers: a clock may be set.
const create = `
CREATE TABLE teleport_find.head (
	one       integer PRIMARY KEY CHECK (one = 1),
	schema    integer NOT NULL,
	id        text    NOT NULL,
	revision  bigint  NOT NULL,
	forgotten bigint  NOT NULL,
	timeline  bigint  NOT NULL
);
CREATE TABLE teleport_find.resources (
	key      text COLLATE "C" PRIMARY KEY,
	value    bytea  NOT NULL,
	revision bigint NOT NULL UNIQUE,
	expires  bigint
);
CREATE INDEX expiring ON teleport_find.resources (expires) WHERE expires IS NOT NULL;
CREATE TABLE teleport_find.removed (
	key      text COLLATE "C" PRIMARY KEY,
	revision bigint NOT NULL
);
CREATE INDEX removals ON teleport_find.removed (revision);
CREATE TABLE teleport_find.commits (
	number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	mark   text NOT NULL
);
CREATE TABLE teleport_find.history (
	number        bigint PRIMARY KEY,
	time          text   NOT NULL,
	who           text   NOT NULL,
	what          text   NOT NULL,
	why           text   NOT NULL,
	key           text   NOT NULL,
	from_revision bigint NOT NULL,
	to_revision   bigint NOT NULL
);
`

// Options say which database has the store, and how to log in.
type Options struct {
	// URL is postgres://USER@HOST:PORT/DATABASE?sslrootcert=FILE, without a password; several hosts are separated by
	// commas, and the primary is used.
	URL string
	// PasswordFile has the password of the user. It is read again for each connection. Empty: the database wants none.
	PasswordFile string
}

// IsURL reports whether a store's address is a database's.
func IsURL(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// Open opens the store, and makes missing tables in the schema teleport_find.
func Open(ctx context.Context, o Options) (*Store, error) {
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", Name(o.URL), err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the store %s: %w", Name(o.URL), err)
	}
	s := &Store{pool: pool, name: Name(o.URL)}
	err = s.repeat(ctx, operationLimit, func(ctx context.Context) error { return ownSessions(ctx, o, config.ConnConfig) })
	if err == nil {
		err = s.do(ctx, operationLimit, func(ctx context.Context, c *pgxpool.Conn) error {
			if err := c.QueryRow(ctx, "SHOW synchronous_commit").Scan(&s.synchronous); err != nil {
				return err
			}
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error { return initialise(ctx, tx) })
		})
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open: %w", err)
	}
	return s, nil
}

// Name returns an address for people: without user, password and parameters.
func Name(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "postgres://…"
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host")
	}
	return "postgres://" + host + u.Path
}

func (o Options) config() (*pgxpool.Config, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("the address is none: write postgres://USER@HOST:PORT/DATABASE") // the error has the address
	}
	parameters := u.Query()
	if _, has := u.User.Password(); has || parameters.Has("password") {
		return nil, errors.New("the address has a password, which others on this machine can read: write it into a file, and name " +
			"that as --store-password-file")
	}
	for name, value := range map[string]string{"sslmode": "verify-full", "connect_timeout": "5", "application_name": "teleport-find"} {
		if !parameters.Has(name) {
			parameters.Set(name, value)
		}
	}
	// Not read-write: a primary whose transactions are read-only by a setting is not a standby, and answers reads.
	parameters.Set("target_session_attrs", "primary")
	u.RawQuery = parameters.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	if err := protected(config.ConnConfig); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: idleLimit, Interval: idleLimit,
		Count: 3}}
	config.ConnConfig.DialFunc = dialer.DialContext
	config.ConnConfig.RuntimeParams["timezone"] = "UTC"
	config.ConnConfig.OnNotice = recordWarning
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error { return c.PgConn().Exec(ctx, settings).Close() }
	config.MaxConns, config.MaxConnIdleTime = 6, time.Minute
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { return o.password(c) }
	return config, nil
}

// maxPassword is far longer than any password.
const maxPassword = 4 << 10

// password reads the file for each connection: it may have been rotated.
func (o Options) password(c *pgx.ConnConfig) error {
	if o.PasswordFile == "" {
		return nil
	}
	text, err := regular.Read(o.PasswordFile, maxPassword, 0)
	if err != nil {
		return fmt.Errorf("the password of the store: %w", err)
	}
	c.Password = strings.TrimRight(string(text), "\r\n")
	return nil
}

// protected returns an error unless TLS verifies the host's name on all networks: the store's content decides which versions hosts run.
func protected(c *pgx.ConnConfig) error {
	all := []*pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}
	for _, f := range append(all, c.Fallbacks...) {
		if strings.HasPrefix(f.Host, "/") || f.TLSConfig == nil && isLoopback(f.Host) {
			continue
		}
		if f.TLSConfig == nil || f.TLSConfig.InsecureSkipVerify {
			return fmt.Errorf("the connection to %s would not be verified: leave sslmode out, which is verify-full, and name the "+
				"authority with sslrootcert=FILE", f.Host)
		}
	}
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// initialise makes the tables. If several servers do this at once, one makes them.
func initialise(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('teleport_find'))"); err != nil {
		return err
	}
	var encoding string
	var schema, tables bool
	err := tx.QueryRow(ctx, "SELECT current_setting('server_encoding'), to_regnamespace('teleport_find') IS NOT NULL, "+
		"to_regclass('teleport_find.head') IS NOT NULL").
		Scan(&encoding, &schema, &tables)
	switch {
	case err != nil:
		return err
	case encoding != "UTF8":
		return &finalError{fmt.Errorf("the encoding of the database is %s: make one with ENCODING 'UTF8'", encoding)}
	case tables:
		return recognise(ctx, tx)
	}
	statements := create
	if !schema {
		statements = "CREATE SCHEMA teleport_find;" + create
	}
	if _, err := tx.Exec(ctx, statements); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO teleport_find.head VALUES (1, $1, $2, 0, 0, "+timelineNow+")", schemaVersion, rand.Text())
	return err
}

// recognise refuses a store that a newer version of this program has made.
func recognise(ctx context.Context, tx pgx.Tx) error {
	found := 0
	if err := tx.QueryRow(ctx, "SELECT schema FROM teleport_find.head").Scan(&found); err != nil {
		return err
	}
	if found > schemaVersion {
		return &finalError{fmt.Errorf("it was written by a newer version of this program (its schema is %d, and this one knows "+
			"%d): upgrade this one", found, schemaVersion)}
	}
	return nil
}
