package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Codes of PostgreSQL's errors, see its documentation, appendix A.
const (
	notNull       = "23502"
	diskFull      = "53100"
	wrongPassword = "28P01"
	notAllowed    = "28000"
	noPrivilege   = "42501"
	readOnly      = "25006"
)

// passing are the codes of what passes: serialization failures, deadlocks, a lock that was waited for too long, a
// server that is starting, stopping or a standby, too many connections, a change that was idle.
var passing = []string{"40001", "40P01", "55P03", "57P01", "57P02", "57P03", "25P03", "53300", readOnly}

// passes reports whether an operation is worth another try.
func passes(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		// The connection was lost, or could not be made; what is wrong with the address stays wrong.
		return !errors.Is(err, context.Canceled)
	}
	return strings.HasPrefix(answer.Code, "08") || slices.Contains(passing, answer.Code)
}

// explain puts the database's words into ours where there is something to do.
func explain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the database does not answer in time: %w", err)
	}
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	switch answer.Code {
	case diskFull:
		return fmt.Errorf("the disk of the database is full, and the store is as it was: %w", err)
	case wrongPassword, notAllowed:
		return fmt.Errorf("the database does not let this server in, look at the user of --store and at --store-password-file: %w", err)
	case noPrivilege:
		return fmt.Errorf("the user of --store lacks a right: it has to own the schema teleport_find: %w", err)
	case readOnly:
		return fmt.Errorf("the database takes no changes, it is a standby: %w", err)
	}
	return err
}
