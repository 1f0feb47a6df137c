package find

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
)

// statusError is an answer with a status other than 200 and 404.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// Unreachable reports whether an error of Ask means that find could not be reached: no such name,
// no connection, no answer in time, a status of 5xx. A wrong or untrusted answer does not count.
func Unreachable(err error) bool {
	if status, ok := errors.AsType[*statusError](err); ok {
		return status.code >= http.StatusInternalServerError
	}
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	if untrusted || alert || noTLS || errors.Is(err, context.Canceled) {
		return false
	}
	network, ok := errors.AsType[net.Error](err)
	_, cut := errors.AsType[*net.OpError](err)
	_, name := errors.AsType[*net.DNSError](err)
	late := ok && network.Timeout() || errors.Is(err, context.DeadlineExceeded)
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	return late || cut || name || ended
}
