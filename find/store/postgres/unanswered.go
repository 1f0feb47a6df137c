package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// way is a fault on the way to a database, and a test for its error. The first match counts: special faults come
// before general ones.
type way struct {
	fault
	is   func(error) bool
	away bool // it may pass by itself
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func says(words string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), words) }
}

const (
	lookAtCertificate = "name the authority of the database's certificate with sslrootcert=FILE in --store"
	isItThere         = "see that it runs and listens there (listen_addresses, port), and that no firewall is between"
)

var ways = []way{
	{
		fault{"the name of the database's host cannot be resolved", "correct the host in --store; see getent hosts NAME", false},
		as[*net.DNSError], true,
	},
	{
		fault{"the database's certificate is of an authority that is not trusted", lookAtCertificate, false},
		as[x509.UnknownAuthorityError], false,
	},
	{fault{"the database's certificate is for another name",
		"write the name in --store as the certificate has it, or issue a certificate for the name of --store", false},
		as[x509.HostnameError], false},
	{fault{"the database's certificate is not valid",
		"renew it on the database's machine, and look at the clocks of both", false}, as[x509.CertificateInvalidError], false},
	{fault{"the TLS connection to the database was refused",
		"see ssl_min_protocol_version and the certificate of the database; its log has the reason", false}, as[tls.AlertError], false},
	{
		fault{"the database does not speak TLS", "set ssl = on with a certificate in its postgresql.conf", false},
		says("server refused TLS connection"), false,
	},
	{fault{"the database takes no changes, it is a standby",
		"name all of the database's hosts in --store: the primary is used; promote the standby if the primary is lost", false},
		is(pgconn.ErrStandbyConnection), true},
	{fault{"nothing listens at the address of the database", isItThere, false}, is(syscall.ECONNREFUSED), true},
	{fault{"there is no socket of a database at that path", isItThere, false},
		func(err error) bool { return as[*net.OpError](err) && errors.Is(err, fs.ErrNotExist) }, true},
	{fault{"the connection to the database was cut", waitOrLook, false},
		func(err error) bool {
			ends := []error{io.ErrUnexpectedEOF, io.EOF, syscall.ECONNRESET, syscall.EPIPE}
			return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) || says("conn closed")(err)
		}, true},
	{fault{"the row of the store about itself is missing", lookAtSchema, true}, is(pgx.ErrNoRows), false},
	{fault{"the database does not answer in time", waitOrLook, false},
		func(err error) bool { return errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err) }, true},
	{fault{"the database cannot be reached", isItThere, false}, as[*net.OpError], true},
}

// unanswered returns the fault for an error that is no answer of a database.
func unanswered(err error) (fault, bool) {
	for _, w := range ways {
		if w.is(err) {
			return w.fault, true
		}
	}
	return fault{}, false
}

// Away reports whether a store could not be opened because its database is away. A retry makes sense: the database
// may be starting or failing over, or this machine has no network yet.
func Away(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return passes(answer)
	}
	for _, w := range ways {
		if w.is(err) {
			return w.away
		}
	}
	return false
}
