// Package parts has parts for several rooms of the find server: the limits of its HTTP servers, the form of
// their replies, the log of requests, files that people edit while it runs, certificates, and the tokens that
// people get once. It knows nothing of hosts, answers or rollouts.
package parts

import (
	"bytes"
	"log"
	"log/slog"
	"net/http"
	"time"
)

// The limits of this program's servers, for find and for the admin API: the times for a header, an idle
// connection, an answer, and open requests at the end of a server, and the size of a header.
const (
	HeaderTime   = 10 * time.Second
	IdleTime     = 90 * time.Second // more than the minute of most balancers: a POST on a connection that ends is a 502
	AnswerTime   = 30 * time.Second
	ShutdownTime = 10 * time.Second
	MaxHeader    = 16 << 10
)

// WithLimits returns an HTTP server with these limits, without a handler.
func WithLimits() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		ReadHeaderTimeout: HeaderTime,
		WriteTimeout:      AnswerTime, // a PatientWriter extends it
		IdleTimeout:       IdleTime,
		MaxHeaderBytes:    MaxHeader,
		Protocols:         protocols,
	}
}

// ErrorLog is for the errors of an http.Server, which anybody can cause. It leaves out connections that end before a TLS
// handshake: a balancer probes a port every second in this way.
func ErrorLog(to *slog.Logger, level slog.Level) *log.Logger {
	lines := slog.NewLogLogger(Rare(to).Handler(), level)
	return log.New(withoutProbes{lines}, "", 0)
}

type withoutProbes struct{ to *log.Logger }

// Write implements io.Writer.
func (w withoutProbes) Write(line []byte) (int, error) {
	text := bytes.TrimSpace(line)
	handshake := bytes.HasPrefix(text, []byte("http: TLS handshake error"))
	if handshake && (bytes.HasSuffix(text, []byte(": EOF")) || bytes.HasSuffix(text, []byte(": connection reset by peer"))) {
		return len(line), nil
	}
	w.to.Print(string(text))
	return len(line), nil
}

// bodyTime is how long a request may take to send a body that nobody reads.
const bodyTime = time.Second

// LimitBody keeps a request with a body, which no endpoint takes, from holding
// its connection: net/http would wait for some of it without a limit.
func LimitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		}
		next.ServeHTTP(w, r)
	})
}
