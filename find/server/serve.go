package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTime   = 10 * time.Second
	idleTime     = time.Minute // hosts ask once in ten minutes: connections are not worth keeping
	answerTime   = 30 * time.Second
	shutdownTime = 10 * time.Second
	maxHeader    = 16 << 10
)

// A download may take hours, but each block of it must be taken within
// blockTime: about 9 kB/s, a quarter of the slowest line worth serving.
const (
	blockSize = 1 << 20
	blockTime = 2 * time.Minute
)

// ResolveListen returns the TCP address to listen on. Without encryption it must be
// a loopback address: hosts refuse plain http to any other, and what they are
// told to run must not be open to change on the way.
func ResolveListen(address string, encrypted bool) (*net.TCPAddr, error) {
	_, _, err := net.SplitHostPort(address) // "" would be any port
	var addr *net.TCPAddr
	if err == nil {
		addr, err = net.ResolveTCPAddr("tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("address to listen on %q: %w", address, err)
	}
	if !encrypted && !addr.IP.IsLoopback() {
		return nil, fmt.Errorf("plain http is served on loopback addresses only, and %q is none: give a certificate, or ask for a self-signed one", address)
	}
	return addr, nil
}

// WithLimits returns an HTTP server with the limits of this one, and with nothing that answers.
func WithLimits() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		ReadHeaderTimeout: headerTime,
		WriteTimeout:      answerTime, // patientWriter extends it
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		Protocols:         protocols,
	}
}

// Serve answers requests until ctx ends, then lets those under way finish for a
// few seconds. A nil config means plain http. It closes the listener.
func Serve(ctx context.Context, listener net.Listener, config *tls.Config, handler http.Handler, log *slog.Logger) error {
	server := WithLimits()
	server.Handler = handler
	server.TLSConfig = config
	// What arrives here is mostly hosts that do not trust the certificate.
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelInfo)
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.Background(), shutdownTime)
		defer cancel()
		err := server.Shutdown(limited)
		if errors.Is(err, context.DeadlineExceeded) {
			log.Info("closing the requests that are still open")
			err = server.Close()
		}
		stopped <- err
	})
	defer stop()
	var err error
	if config == nil {
		err = server.Serve(listener)
	} else {
		err = server.ServeTLS(listener, "", "")
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// patientWriter lets a response take as long as it needs while the client keeps
// taking it.
type patientWriter struct{ http.ResponseWriter }

func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) Write(p []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(p)
}

// ReadFrom copies in blocks, each of which net/http can hand to sendfile(2).
func (w *patientWriter) ReadFrom(src io.Reader) (total int64, err error) {
	// net/http looks for the file behind one limit, not behind two.
	whole, ok := src.(*io.LimitedReader)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	for whole.N > 0 {
		w.extend()
		n, err := io.Copy(w.ResponseWriter, &io.LimitedReader{R: whole.R, N: min(whole.N, blockSize)})
		whole.N -= n
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
	return total, nil
}

func (w *patientWriter) extend() {
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(blockTime))
}
