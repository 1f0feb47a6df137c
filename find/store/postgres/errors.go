package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"teleport-update/find/store"
)

// Codes of PostgreSQL's errors, see its documentation, appendix A.
const (
	notNull  = "23502"
	readOnly = "25006"
)

// passing are the codes of temporary errors: serialization failures, deadlocks, a lock that was waited for too
// long, a server that is starting, stopping or a standby, too many connections, a change that was idle.
var passing = []string{"40001", "40P01", "55P03", "57P01", "57P02", "57P03", "25P03", "53300", readOnly}

// passes reports whether an operation is worth another try.
func passes(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		// The connection was lost, or could not be made. An error in the address stays, but is not recognised here.
		return !errors.Is(err, context.Canceled)
	}
	return strings.HasPrefix(answer.Code, "08") || slices.Contains(passing, answer.Code)
}

// fault is a way in which a database fails, for the person who has to end it.
type fault struct {
	what   string // what has happened
	fix    string // what to do
	broken bool   // the store has another state than a find server leaves
}

// Fixes of more than one fault.
const (
	lookAtUser     = "look at the user in --store, at --store-password-file, and at pg_hba.conf of the database"
	lookAtSchema   = "restore the database from a backup, or name another one with --store"
	waitOrLook     = "it is tried again by itself; if it lasts, look at the database's log"
	grantRights    = "let the user own the schema teleport_find, or grant USAGE on it and SELECT, INSERT, UPDATE and DELETE on its tables"
	lookAtDatabase = "look at the database's log, and at its disk"
)

// answered are the faults behind a database's error codes. A code of two characters is a whole class.
var answered = map[string]fault{
	"28P01": {"the database does not let this server in: user or password is wrong", lookAtUser, false},
	"28000": {"the database does not let this server in", lookAtUser, false},
	"3D000": {"there is no database of that name on the server",
		"make it (CREATE DATABASE … ENCODING 'UTF8'), or correct the name in --store", false},
	"42501": {"the user of --store lacks a right", grantRights, false},
	readOnly: {"the database takes no changes: its transactions are read-only by a setting",
		"look at default_transaction_read_only of the server, the database and the role; providers set it when the disk is full", false},
	"53100": {"the disk of the database is full", "make room there; what was refused is tried again, or has to be given again", false},
	"53200": {"the database is out of memory", "give it more, or lower its shared_buffers and max_connections", false},
	"53300": {"the database has too many connections",
		"raise max_connections or the role's CONNECTION LIMIT: each find server has 7 at most", false},
	"53": {"the database lacks something that it needs", lookAtDatabase, false},
	"57014": {"the database gave up a statement that took too long or was cancelled",
		"raise statement_timeout of the role: reading all hosts takes minutes in a large fleet", false},
	"57P01": {"the database ended the connection: it is shut down, or somebody has ended it", waitOrLook, false},
	"57P02": {"the database ended the connection: one of its processes crashed", waitOrLook, false},
	"57P03": {"the database is starting, stopping or recovering", waitOrLook, false},
	"55P03": {"another change holds the store's lock for too long",
		"look at pg_stat_activity for who holds it: only find servers should change the schema teleport_find", false},
	"40P01": {"the database found a deadlock, again and again", "only find servers should change the schema teleport_find", false},
	"40001": {"the database could not serialize the change, again and again", waitOrLook, false},
	"25P03": {"this server was silent for too long amid a change, and the database undid it",
		"if it lasts, this machine is overloaded or the network loses packets", false},
	"42P01": {"a table of the store is missing", lookAtSchema, true},
	"3F000": {"the schema teleport_find is missing", lookAtSchema, true},
	"42703": {"a table of the store has other columns than this program knows",
		"upgrade this program, or restore the database from a backup", true},
	"42883": {"the server lacks a function of PostgreSQL, such as the one that tells of failovers",
		"use PostgreSQL 13 or newer: databases that speak its protocol only will not do", false},
	"58": {"the database cannot use its files", lookAtDatabase, false},
	"XX": {"the data of the database are damaged, or it has an error of its own",
		"see its log, and restore it from a backup or a standby", true},
}

// explain puts before the database's own words what has happened, the state of the store, and what to do.
func explain(err error) error {
	if _, unknown := errors.AsType[*store.UnknownError](err); unknown {
		return err // the store may have been changed
	}
	f, known := faultOf(err)
	if !known {
		return err
	}
	state := "and the store is as it was"
	if f.broken {
		state = "and this server leaves the store as it is"
	}
	return fmt.Errorf("%s, %s: %s: %w", f.what, state, f.fix, err)
}

func faultOf(err error) (fault, bool) {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return unanswered(err)
	}
	if answer.Code == "42501" && strings.Contains(answer.Message, "for database") {
		return fault{"the user of --store may not make the schema teleport_find, or not connect",
			"run CREATE SCHEMA teleport_find AUTHORIZATION that user in the database, as its owner, and GRANT CONNECT", false}, true
	}
	f, known := answered[answer.Code]
	if !known && len(answer.Code) > 2 {
		f, known = answered[answer.Code[:2]]
	}
	return f, known
}
