package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/find/server/parts"
)

// Listen listens on a unix socket that root and the user of this process can open. It
// replaces a socket that a server has left behind. If a server still answers on it,
// that is an error.
func Listen(ctx context.Context, path string) (net.Listener, error) {
	if strings.HasPrefix(path, "@") {
		return nil, fmt.Errorf("admin socket %s: a name that begins with @ is in no folder, and everybody could open it", path)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	// The socket gets its mode before its name, so that nobody can connect in between.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
	}}
	listener, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	return listener, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is something else of that name")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return errors.New("another server listens on it")
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// Serve answers requests of the admin API until ctx ends.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler:        handler,
		ReadTimeout:    parts.AnswerTime,
		WriteTimeout:   parts.AnswerTime,
		IdleTimeout:    parts.IdleTime,
		MaxHeaderBytes: parts.MaxHeader,
		ErrorLog:       parts.ErrorLog(log, slog.LevelInfo),
		ConnContext:    withPeer,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limited, cancel := context.WithTimeout(context.Background(), parts.ShutdownTime)
		defer cancel()
		stopped <- server.Shutdown(limited)
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

type peerKey struct{}

// withPeer puts the peer of the connection into the context.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return ctx
	}
	raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			ctx = context.WithValue(ctx, peerKey{}, cred)
		}
	})
	return ctx
}

// peer names the sender of a request, for the log.
func peer(ctx context.Context) string {
	if b, ok := ctx.Value(bearerKey{}).(bearer); ok {
		return "token " + b.name
	}
	if cred, ok := ctx.Value(peerKey{}).(*unix.Ucred); ok {
		return "uid " + strconv.Itoa(int(cred.Uid))
	}
	return "unknown"
}
