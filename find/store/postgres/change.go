package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"teleport-update/find/store"
)

const (
	// operationLimit bounds an operation, with all repetitions.
	operationLimit = 15 * time.Second
	// scanLimit bounds an operation that reads everything: 456 MB of a million hosts.
	scanLimit = 5 * time.Minute
	// idleLimit is the time after which the database undoes the change of a silent server.
	idleLimit = 5 * time.Second

	// leaveMark keeps the marks of the last 10,000 changes: all servers together make fewer in the time in which one of
	// them asks for its own (operationLimit). Marks of the last minutes would not do: if somebody set the database's
	// clock forward, a change that was made would look like one that was not.
	leaveMark = "WITH mine AS (INSERT INTO teleport_find.commits (mark) VALUES ($1) RETURNING number) " +
		"DELETE FROM teleport_find.commits WHERE number <= (SELECT number FROM mine) - 10000"

	// channel is the channel of notifications about changes.
	channel = "teleport_find"
	// timelineNow grows by one with each promotion of a standby.
	timelineNow = "('x' || lpad(substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 16, '0'))::bit(64)::bigint"
)

// head is the row that each change locks.
type head struct {
	revision store.Revision
	timeline int64
	identity store.Identity // the present one, after a failover too
}

// change makes changes, and the store's new revision, in one transaction that locks all other writers out from its
// start. apply returns its last statements, which end with the statements of advance.
func (s *Store) change(ctx context.Context, apply func(context.Context, pgx.Tx, head) (*pgx.Batch, error)) error {
	return s.changeWithin(ctx, operationLimit, apply)
}

// changeWithin is change for an operation with another limit.
func (s *Store) changeWithin(ctx context.Context, limit time.Duration, apply func(context.Context, pgx.Tx, head) (*pgx.Batch,
	error)) error {
	return s.do(ctx, limit, func(ctx context.Context, c *pgxpool.Conn) error {
		forget(c.Conn())
		tx, err := c.Begin(ctx)
		if err != nil {
			return err
		}
		defer rollback(tx)
		var h head
		var is incarnation
		into := append([]any{&h.revision, &h.timeline, &h.identity.ID}, is.columns()...)
		err = tx.QueryRow(ctx, "SELECT revision, timeline, id, "+incarnationNow+" FROM teleport_find.head FOR UPDATE").Scan(into...)
		if err != nil {
			return err
		}
		h.identity.Epoch = is.epoch()
		timeline := is.timeline
		if timeline != h.timeline {
			if h, err = failedOver(ctx, tx, h, timeline); err != nil {
				return err
			}
		}
		b, err := apply(ctx, tx, h)
		if err != nil {
			return err
		}
		mark := rand.Text()
		b.Queue(leaveMark, mark)
		b.Queue("COMMIT")
		if err = tx.SendBatch(ctx, b).Close(); err == nil {
			err = replicated(c.Conn())
		}
		if err == nil {
			return nil
		}
		return s.became(err, mark)
	})
}

// incarnation distinguishes a database from its copies: a restored dump has other tables, and a promoted standby has
// another timeline.
type incarnation struct {
	table            uint32
	system, timeline int64
}

// incarnationNow has its columns.
const incarnationNow = "'teleport_find.head'::regclass::oid, (SELECT system_identifier FROM pg_control_system()), " + timelineNow

func (i *incarnation) columns() []any { return []any{&i.table, &i.system, &i.timeline} }

func (i *incarnation) epoch() int64 {
	h := fnv.New64a()
	fmt.Fprint(h, i.table, i.system, i.timeline)
	return int64(h.Sum64())
}

// advance sets the revision of the store, or, after the deadline, fails by a NULL.
func advance(b *pgx.Batch, to store.Revision, deadline time.Time) {
	var by *time.Time
	if !deadline.IsZero() {
		by = &deadline
	}
	b.Queue("UPDATE teleport_find.head SET revision = CASE WHEN $2::timestamptz IS NULL OR clock_timestamp() <= $2 THEN $1::bigint END",
		int64(to), by)
}

// mostSteps is the largest number of epochs by which a failover advances.
const mostSteps = 1000

// failedOver begins a new epoch, as part of the first change on another timeline. The epoch is random: two standbys of one
// primary, promoted one after the other, have the same timeline, and a revision of one must not be taken for a revision of the
// other.
func failedOver(ctx context.Context, tx pgx.Tx, h head, timeline int64) (head, error) {
	before := h
	h.revision, h.timeline = h.revision+store.EpochStep*(1+mathrand.N[store.Revision](mostSteps)), timeline
	b := &pgx.Batch{}
	b.Queue("UPDATE teleport_find.head SET revision = $1, timeline = $2, forgotten = $1", int64(h.revision), timeline)
	audit := store.Audit{
		Time: time.Now(), Who: "store", What: fmt.Sprintf("the database has failed over (timeline %d, it was %d)", timeline, before.timeline),
		Why: "a standby was promoted: changes that were acknowledged last may be missing",
	}
	var r records
	r.numbers, r.keys = []int64{int64(h.revision)}, []string{store.FailoverKey}
	r.from, r.to = []int64{int64(before.revision)}, []int64{int64(h.revision)}
	write(b, audit, r)
	return h, tx.SendBatch(ctx, b).Close()
}

// became returns the result of a change whose commit has failed: the database's answer, if there is one; if the
// connection was lost instead, it asks the database.
func (s *Store) became(err error, mark string) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.Severity != "FATAL" && answer.Severity != "PANIC" {
		if answer.Code == notNull && answer.TableName == "head" {
			return store.ErrLate
		}
		return err
	}
	// The caller's context may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	for ctx.Err() == nil {
		made, asked := s.isMade(ctx, mark)
		switch {
		case asked == nil && made:
			return nil
		case asked == nil:
			return err
		}
		pause(ctx, maxAttempts)
	}
	return &finalError{&store.UnknownError{Err: err}}
}

// isMade looks for the mark that a change has left. When isMade gets the lock that the change had, the change is over. The
// change's transaction number would not do (pg_xact_status): a database that crashes gives numbers of lost transactions to
// others. The lock is a write, so that the commit waits for a synchronous standby: once the standby has the lock, it has
// the change.
func (s *Store) isMade(ctx context.Context, mark string) (made bool, err error) {
	err = s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		forget(c.Conn())
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT 1 FROM teleport_find.head FOR UPDATE"); err != nil {
				return err
			}
			return tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM teleport_find.commits WHERE mark = $1)", mark).Scan(&made)
		})
		if err != nil {
			return err
		}
		return replicated(c.Conn())
	})
	return made, err
}

// moment runs f on the store's state at one moment.
func moment(ctx context.Context, c *pgxpool.Conn, f func(pgx.Tx) error) error {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer rollback(tx)
	return f(tx)
}

// rollback ends a transaction that may have ended; its connection is closed if that fails.
func rollback(tx pgx.Tx) {
	if tx.Conn().PgConn().TxStatus() == 'I' {
		return // the commit was among the statements
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	tx.Rollback(ctx)
}

// finalError is an error after which the operation is not repeated.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// maxAttempts is how often an operation is tried at most.
const maxAttempts = 8

// do runs one operation, and repeats it if the database was away or asks for that.
func (s *Store) do(ctx context.Context, limit time.Duration, operation func(context.Context, *pgxpool.Conn) error) error {
	return s.repeat(ctx, limit, func(ctx context.Context) error {
		return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return operation(ctx, c) })
	})
}

// repeat is do for an operation that has connections of its own.
func (s *Store) repeat(ctx context.Context, limit time.Duration, operation func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := operation(limited)
		if err == nil || isAnswer(err) {
			return err
		}
		final, isFinal := errors.AsType[*finalError](err)
		// The caller may have gone: then the result is not known, and must not be reported as a failure.
		if cause := context.Cause(ctx); cause != nil && !isFinal {
			return cause
		}
		if isFinal {
			err = final.err
		}
		if isFinal || attempt == maxAttempts || limited.Err() != nil || !passes(err) {
			return fmt.Errorf("the store %s: %w", s.name, explain(err))
		}
		pause(limited, attempt)
	}
}

// isAnswer reports whether an error is one that the store's interface names.
func isAnswer(err error) bool {
	if _, conflict := errors.AsType[*store.ConflictError](err); conflict {
		return true
	}
	answers := []error{store.ErrNotFound, store.ErrTooOld, store.ErrLate, store.ErrReplaced, store.ErrNotEmpty}
	return slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) })
}

// pause waits longer with each attempt, a second at most, and at random so that not all servers return at once.
func pause(ctx context.Context, attempt int) {
	most := min(time.Second, 20*time.Millisecond<<attempt)
	timer := time.NewTimer(most/2 + mathrand.N(most/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
