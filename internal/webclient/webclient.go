// Package webclient is an HTTP client for a program that runs as root and acts
// on servers' answers.
//
// Every request, and every redirect on the way, goes over verified https, or
// over plain http to a loopback address. Proxies come from the environment
// (HTTPS_PROXY, NO_PROXY), never for a loopback address. URLs are logged
// through Redact, errors through RedactError.
//
// The client has limits on connecting, on the TLS handshake and on waiting for
// headers. It has none on a whole exchange, as a download on a slow line may
// take an hour: the caller's context bounds that.
package webclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"teleport-update/internal/console"
)

const (
	connectTimeout = 10 * time.Second
	tlsTimeout     = 10 * time.Second
	headerTimeout  = 30 * time.Second
	idleTimeout    = 30 * time.Second

	maxRedirects   = 10
	maxHeaderBytes = 64 << 10
)

// Options are the settings of a client.
type Options struct {
	// CAFile names a PEM file of certificates to trust beside the system's. Empty: only the system's.
	CAFile string
	// Trust is the flag that errors advise for a server with a private CA, in backquotes; empty: the flag of teleport-update.
	Trust string
	// UserAgent is sent with each request that does not set its own.
	UserAgent string
}

// New returns a client. A CAFile that cannot be read, or that is anything but
// PEM with at least one certificate, is an error now rather than at the first
// request. The system's certificates are read at the first https request, so
// a client that is never used costs nothing.
//
// Responses are never decompressed: the caller gets the bytes that were sent.
func New(opts Options) (*http.Client, error) {
	var extra []*x509.Certificate
	if opts.CAFile != "" {
		var err error
		if extra, err = readCertificates(opts.CAFile); err != nil {
			return nil, err
		}
	}
	return &http.Client{
		Transport:     &guard{newWidening(extra), opts.UserAgent, opts.Trust},
		CheckRedirect: checkRedirect,
	}, nil
}

func newTransport(roots *x509.CertPool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: checkConnect,
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		Protocols:              protocols,
	}
}

// RefusedError is a request that the client does not make, whether a caller asked for it or a
// server redirected it there. A repetition is of no use.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refusef(format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...)}
}

// CheckURL returns a *RefusedError unless a request may go to u: https, or http to a loopback
// address (127.0.0.0/8, ::1, localhost).
func CheckURL(u *url.URL) error {
	host := u.Hostname()
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return refusef("%s: the scheme must be https", Redact(u.String()))
	case host == "":
		return refusef("%s: there is no host name", Redact(u.String()))
	case u.Scheme == "http" && !loopback(host):
		return refusef("%s: plain http is for loopback addresses only, use https", Redact(u.String()))
	}
	return nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// guard sees each request of a client, including redirects.
type guard struct {
	*widening
	userAgent string
	trust     string
}

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := CheckURL(req.URL); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	if g.userAgent != "" && req.Header.Get("User-Agent") == "" {
		req = req.Clone(req.Context()) // a RoundTripper must not change its caller's
		req.Header.Set("User-Agent", g.userAgent)
	}
	resp, err := g.widening.RoundTrip(req)
	return resp, plainError(err, g.trust)
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	// net/http would tell the next server the address of this one, with the
	// host's UUID or a download's token in its query.
	req.Header.Del("Referer")
	if len(via) >= maxRedirects {
		return refusef("gave up after %d redirects", maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return refusef("refused a redirect from https to %s", Redact(req.URL.String()))
	}
	return nil // guard checks the address itself
}

// checkConnect names the proxy that refused: net/http itself would only say "Forbidden".
func checkConnect(_ context.Context, proxy *url.URL, connect *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return fmt.Errorf("the HTTP proxy %s refused the connection to %s: %s", Redact(proxy.String()), connect.Host, console.Excerpt(resp.Status,
		maxServersText))
}
