package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// settings of each session. They are not parameters of the connection: pgbouncer refuses a connection with these.
const settings = "SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '10s'; SET tcp_user_timeout = '15s'"

// errShared is the error for a pooler that is not in its session mode. Other clients would get the settings of a
// session, LISTEN and prepared statements.
var errShared = errors.New("a pooler before the database gives one session to several clients (pool_mode is transaction or statement): " +
	"set pool_mode = session for this database in the pooler, or name the database itself in --store")

// probes is the number of sessions that are checked: an idle pooler may use another one for each transaction.
const probes = 4

// ownSessions returns an error if a pooler gives the session of a client to others. A session gets a mark; while it is
// idle, no other connection may see the mark, and its own connection must.
func ownSessions(ctx context.Context, o Options, config *pgx.ConnConfig) error {
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // prepared statements belong to a session, too
	if err := o.password(config); err != nil {
		return err
	}
	owner, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer closeSoon(owner)
	backend := uint32(0)
	if err := owner.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return err
	}
	if backend == owner.PgConn().PID() {
		return nil // no pooler: a pooler answers with numbers of its own
	}
	mark := rand.Text()
	if _, err := owner.Exec(ctx, "SELECT set_config('teleport_find.session', $1, false)", mark); err != nil {
		return err
	}
	for range probes {
		other, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer closeSoon(other)
		// The transaction stays open, so that the next probe gets another session.
		if _, err := other.Exec(ctx, "BEGIN"); err != nil {
			return shared(err)
		}
		if err := hasMark(ctx, other, mark, false); err != nil {
			return err
		}
	}
	return hasMark(ctx, owner, mark, true)
}

func hasMark(ctx context.Context, c *pgx.Conn, mark string, want bool) error {
	found := ""
	if err := c.QueryRow(ctx, "SELECT coalesce(current_setting('teleport_find.session', true), '')").Scan(&found); err != nil {
		return err
	}
	if (found == mark) != want {
		return &finalError{errShared}
	}
	return nil
}

// shared returns the error of a BEGIN: a pooler in statement mode answers that it has no transactions.
func shared(err error) error {
	if _, answered := errors.AsType[*pgconn.PgError](err); answered {
		return &finalError{errShared}
	}
	return err
}

func closeSoon(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.Close(ctx)
}

// warning is the code of a warning that has no code of its own.
const warning = "01000"

// unreplicated is the key of a session's note.
const unreplicated = "unreplicated"

// recordWarning records warnings. COMMIT returns success, and nothing but a warning, if somebody has cancelled its wait
// for a synchronous standby: the transaction is on the primary alone.
func recordWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Code == warning {
		c.CustomData()[unreplicated] = n.Message
	}
}

// errUnreplicated means that the database has a change, and that its standby may lack it.
var errUnreplicated = errors.New("the database has it, but not yet its standby: somebody cancelled the wait for the standby, and a " +
	"failover now would lose the change")

// replicated returns errUnreplicated if the last commit of a session did not wait for the standby. Before the commit,
// call forget to remove an earlier note.
func replicated(c *pgx.Conn) error {
	if _, noted := c.PgConn().CustomData()[unreplicated]; noted {
		return errUnreplicated
	}
	return nil
}

func forget(c *pgx.Conn) { delete(c.PgConn().CustomData(), unreplicated) }
