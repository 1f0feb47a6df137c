package webclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

// bundles are the paths of all trusted CA certificates in one file on distributions: Debian and
// SUSE's older ones, Fedora and RHEL, SUSE, Alpine.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// widening is a transport that verifies servers with as few CA certificates as possible.
// crypto/x509 parses the system's bundle and then every file beside it, which costs several times
// as much CPU and memory as the rest of a request that each host of a fleet makes every ten
// minutes. If a narrower set does not verify a server, the request is repeated with the next set,
// so trust and errors are the same as with the widest set.
type widening struct {
	plain  *http.Transport // for plain http, which needs no certificates
	levels []func() (*http.Transport, error)
	level  atomic.Int32
}

// newWidening trusts extra beside the system's certificates.
func newWidening(extra []*x509.Certificate) *widening {
	w := &widening{plain: newTransport(nil)}
	if len(extra) > 0 {
		w.add(func() (*x509.CertPool, error) { return x509.NewCertPool(), nil }, extra)
	}
	if pem := bundle(); pem != "" {
		w.add(func() (*x509.CertPool, error) { return bundled(pem) }, extra)
	}
	w.add(x509.SystemCertPool, extra)
	return w
}

// bundle finds the system's one file, or the file that the environment names instead, as
// crypto/x509 does.
func bundle() string {
	names := bundles
	if name := os.Getenv("SSL_CERT_FILE"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// bundled skips certificates that it cannot read, as crypto/x509 does with the same file.
func bundled(name string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if data, err := os.ReadFile(name); err == nil {
		pool.AppendCertsFromPEM(data)
	}
	return pool, nil
}

func (w *widening) add(load func() (*x509.CertPool, error), extra []*x509.Certificate) {
	w.levels = append(w.levels, sync.OnceValues(func() (*http.Transport, error) {
		roots, err := load()
		if err != nil { // only on the widest level: the others skip what they cannot read
			return nil, fmt.Errorf("read the system's CA certificates: %w", err)
		}
		for _, cert := range extra {
			roots.AddCert(cert)
		}
		return newTransport(roots), nil
	}))
}

func (w *widening) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return w.plain.RoundTrip(req)
	}
	widest := len(w.levels) - 1
	level := int(w.level.Load())
	if req.Body != nil && req.GetBody == nil {
		level = widest // such a body cannot be sent twice
	}
	for {
		transport, err := w.levels[level]()
		if err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
		resp, err := transport.RoundTrip(req)
		if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); !untrusted || level == widest {
			return resp, err
		}
		if req.Body != nil { // it was closed
			req = req.Clone(req.Context())
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		level++
		w.level.Store(int32(level))
	}
}

func (w *widening) CloseIdleConnections() {
	w.plain.CloseIdleConnections()
	for level := range int(w.level.Load()) + 1 {
		if transport, err := w.levels[level](); err == nil {
			transport.CloseIdleConnections()
		}
	}
}
