package webclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"teleport-update/internal/console"
)

// PlainError returns an error with the same chain whose text says in an
// operator's words what went wrong in an exchange with a server, and, if known, what to do.
// An error for which it has no better words keeps its own, as one line of
// bounded length, and nil stays nil.
//
// The client's own errors have been through it; errors of reading a body have
// not.
func PlainError(err error) error { return plainError(err, "") }

// usualTrust is the advice to trust a private CA, if the client has no other.
const usualTrust = "`teleport-update enable --ca-file`"

func plainError(err error, trust string) error {
	if err == nil {
		return nil
	}
	is := err.Error()
	text := plainText(err, cmp.Or(trust, usualTrust))
	if text == "" {
		text = is
	}
	if text = console.Excerpt(text, maxErrorText); text != is {
		return &reworded{text: text, err: err}
	}
	return err
}

// The largest number of characters in a text about an exchange, and in its parts that a server
// made up: the names in a certificate that nobody vouches for, the words behind a status code.
const (
	maxErrorText   = 600
	maxServersText = 200
)

func plainText(err error, trust string) string {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server's certificate is not trusted: " + whyUntrusted(e.Err, trust)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("the name %s cannot be resolved: %s", e.Name, whyUnresolved(e))
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		if text := plainOp(e); text != "" {
			return text
		}
	}
	if e, ok := errors.AsType[tls.AlertError](err); ok {
		return "the server ended the TLS handshake: " + strings.TrimPrefix(e.Error(), "tls: ")
	}
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	switch text := err.Error(); {
	// These have no types of their own, and the first one passes for the next case.
	case strings.HasSuffix(text, "timeout awaiting response headers"):
		return fmt.Sprintf("the server took the request and did not answer within %s", headerTimeout)
	case strings.HasSuffix(text, "TLS handshake timeout"):
		return fmt.Sprintf("the TLS handshake took longer than %s", tlsTimeout)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was cut"
	case errors.Is(err, io.EOF):
		return "the server closed the connection without an answer"
	// This has no type of its own.
	case strings.HasSuffix(text, "server gave HTTP response to HTTPS client"), notTLS:
		return "the server does not speak TLS at this address and port"
	}
	return ""
}

// Unreached reports whether a request failed before anything answered at the address: the
// connection was refused, or nothing took it. A name that does not resolve, a TLS error and an
// HTTP proxy's refusal do not count.
func Unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	_, unresolved := errors.AsType[*net.DNSError](err)
	return ok && op.Op == "dial" && !unresolved
}

func plainOp(e *net.OpError) string {
	why := ""
	if number, ok := errors.AsType[syscall.Errno](e.Err); ok {
		why = number.Error()
	}
	switch {
	case e.Op == "proxyconnect":
		if inner, ok := errors.AsType[*net.OpError](e.Err); ok && inner.Op == "dial" {
			return "the HTTP proxy cannot be reached: " + plainOp(inner)
		}
	case e.Op == "remote error" && e.Err != nil:
		return "the server ended the TLS handshake: " + strings.TrimPrefix(e.Err.Error(), "tls: ")
	case e.Op == "dial" && e.Timeout():
		return fmt.Sprintf("no connection to %v within %s", e.Addr, connectTimeout)
	case e.Op == "dial" && e.Addr != nil && why != "":
		return fmt.Sprintf("no connection to %v: %s", e.Addr, why)
	case (e.Op == "read" || e.Op == "write") && why != "":
		return why
	}
	return ""
}

func whyUnresolved(e *net.DNSError) string {
	switch {
	case e.IsNotFound:
		return "there is no such name"
	case e.IsTimeout, strings.HasPrefix(e.Err, "read "), strings.HasPrefix(e.Err, "dial "):
		return "no name server answers"
	}
	return e.Err
}

// whyUntrusted adds the most likely cause.
func whyUntrusted(err error, trust string) string {
	text := console.Excerpt(strings.ReplaceAll(err.Error(), "x509: ", ""), maxServersText)
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return text + "; if that is a private CA, trust it with " + trust
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		if strings.Contains(e.Detail, " is before ") {
			return text + "; is the clock of this host right?"
		}
		return text + "; the server needs a new one" // a clock that is ahead is rare
	}
	return text
}
