package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"teleport-update/find/server/parts"
)

// ResolveListen returns the TCP address to listen on. Without encryption it must be a
// loopback address: hosts refuse plain http to any other, and nobody may change an
// answer on the way.
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
		return nil, fmt.Errorf("plain http is served on loopback addresses only, and %q is none: give a certificate, or ask for a "+
			"self-signed one", address)
	}
	return addr, nil
}

// Serve answers requests until ctx ends, then gives open ones a few seconds to finish.
// A nil config means plain http. It closes the listener.
func Serve(ctx context.Context, listener net.Listener, config *tls.Config, handler http.Handler, log *slog.Logger) error {
	server := parts.WithLimits()
	server.Handler = handler
	server.TLSConfig = config
	// Most of these lines are about hosts that do not trust the certificate.
	server.ErrorLog = parts.ErrorLog(log, slog.LevelInfo)
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.Background(), parts.ShutdownTime)
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
