package webclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPlainError(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"nobody listens", refused, "no connection to 192.0.2.1:443: connection refused"},
		{"nobody answers", &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: os.ErrDeadlineExceeded}, "no connection to 192.0.2.1:443 within 10s"},
		{"the HTTP proxy is down", &net.OpError{Op: "proxyconnect", Net: "tcp", Err: refused}, "the HTTP proxy cannot be reached: no connection to 192.0.2.1:443: connection refused"},
		{"no such name", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Name: "a.example", Err: "no such host", IsNotFound: true}},
			"the name a.example cannot be resolved: there is no such name"},
		{"no name server", &net.DNSError{Name: "a.example", Err: "read udp [::1]:1->[::1]:53: read: connection refused"}, "the name a.example cannot be resolved: no name server answers"},
		{"a reset", &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "connection reset by peer"},
		{"cut in the body", fmt.Errorf("after all: %w", io.ErrUnexpectedEOF), "the connection was cut"},
		{"an expired certificate", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time X is after Y"}},
			"the server's certificate is not trusted: certificate has expired or is not yet valid: current time X is after Y; the server needs a new one"},
		{"a certificate of a time to come", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time X is before Y"}},
			"the server's certificate is not trusted: certificate has expired or is not yet valid: current time X is before Y; is the clock of this host right?"},
		{"an alert", &net.OpError{Op: "remote error", Err: tls.AlertError(40)}, "the server ended the TLS handshake: handshake failure"},
		{"a deadline", context.DeadlineExceeded, "no answer in time"},
		{"somebody gave up", context.Canceled, "interrupted"},
		{"something else", errors.New("disk is full"), "disk is full"},
	} {
		got := PlainError(tc.err)
		if got.Error() != tc.want {
			t.Errorf("%s:\ngot  %v\nwant %s", tc.name, got, tc.want)
		}
		if !errors.Is(got, tc.err) && errors.Unwrap(got) != tc.err {
			t.Errorf("%s: the chain is lost", tc.name)
		}
	}
	if PlainError(nil) != nil {
		t.Error("nil became an error")
	}
}

// What net/http makes of broken servers has no type to test for.
func TestTheClientSaysPlainlyWhatABrokenServerDid(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	mute := server(t, func(c net.Conn) { c.Read(make([]byte, 64<<10)) })
	noTLS := server(t, func(c net.Conn) { io.ReadFull(c, make([]byte, 1)); io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n") })
	for _, tc := range []struct{ name, url, want string }{
		{"hangs up", "http://" + mute, "the server closed the connection without an answer"},
		{"hangs up in the handshake", "https://" + mute, "the server closed the connection without an answer"},
		{"speaks plain http", strings.Replace(plain.URL, "http:", "https:", 1), "the server does not speak TLS at this address and port"},
		{"speaks something else", "https://" + noTLS, "the server does not speak TLS at this address and port"},
	} {
		client, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Get(tc.url)
		if e, ok := errors.AsType[*url.Error](err); !ok || e.Err.Error() != tc.want {
			t.Errorf("%s:\ngot  %v\nwant %s", tc.name, err, tc.want)
		}
	}
}

// It passes for any deadline, and says more than one.
func TestAServerThatDoesNotAnswerIsToldAsSuch(t *testing.T) {
	gone := make(chan struct{})
	address := server(t, func(c net.Conn) { <-gone })
	defer close(gone)
	transport := &http.Transport{ResponseHeaderTimeout: time.Millisecond}
	_, err := (&http.Client{Transport: transport}).Get("http://" + address)
	if e, ok := errors.AsType[*url.Error](err); !ok || PlainError(e.Err).Error() != "the server took the request and did not answer within 30s" {
		t.Errorf("it says %v", PlainError(err))
	}
}

// server is one that net/http would not be.
func server(t *testing.T, serve func(net.Conn)) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	return l.Addr().String()
}
