package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"teleport-update/find"
	"teleport-update/find/server/parts"
	"teleport-update/internal/sharedbuffer"
	"teleport-update/internal/version"
	"teleport-update/internal/webclient"
)

// The whole of it, as a host sees it: a server with a certificate of its own
// CA, and the client that trusts that.
func TestHostsAskOverTLS(t *testing.T) {
	authority, err := parts.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.Config([]string{"localhost"})
	if err != nil {
		t.Fatal(err)
	}
	url, stop := start(t, New(Options{Answers: new(byGroup), Log: slog.New(slog.DiscardHandler)}), config)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	trusting, err := webclient.New(webclient.Options{CAFile: caFile})
	if err != nil {
		t.Fatal(err)
	}
	defer trusting.CloseIdleConnections()
	url = strings.Replace(url, "http://127.0.0.1", "https://localhost", 1)
	answer, err := (&find.Client{HTTP: trusting}).Ask(t.Context(), find.Request{Proxy: url, Group: "15.1.1"})
	if want := (find.Answer{Version: "15.1.1", Edition: version.Enterprise, AutoUpdate: true, Jitter: 10 * time.Second}); answer != want || err != nil {
		t.Errorf("got %+v, %v", answer, err)
	}
	wrongName := strings.Replace(url, "localhost", "127.0.0.1", 1)
	if _, err := (&find.Client{HTTP: trusting}).Ask(t.Context(), find.Request{Proxy: wrongName}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a name that the certificate lacks: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// pipeListener accepts connections in memory, whose deadlines follow the clock of a test.
type pipeListener struct{ conns chan net.Conn }

func (l pipeListener) Accept() (net.Conn, error) {
	conn, open := <-l.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l pipeListener) Close() error { return nil }

func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Whoever connects and says nothing, stops in the middle of a header, or asks nothing any more, is let go
// when its time is over, and not before.
func TestTheServerLetsGoOfWhoeverIsSilent(t *testing.T) {
	for _, tc := range []struct {
		name, says string
		after      time.Duration
	}{
		{"says nothing", "", parts.HeaderTime},
		{"stops in the middle of a header", "GET / HTTP/1.1\r\nHost: x\r\nX-", parts.HeaderTime},
		{"asks nothing any more", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 90 * time.Second}, // as docs/proxies.md says
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := parts.WithLimits()
				server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here\n") })
				listener := pipeListener{make(chan net.Conn)}
				ended := make(chan error)
				go func() { ended <- server.Serve(listener) }()
				conn, theirs := net.Pipe()
				listener.conns <- theirs
				began := time.Now()
				go io.WriteString(conn, tc.says)
				io.Copy(io.Discard, conn)
				if took := time.Since(began); took != tc.after {
					t.Errorf("the connection was closed after %s; want %s", took, tc.after)
				}
				close(listener.conns)
				<-ended
			})
		})
	}
}

// A balancer opens the port to see whether it is open, and closes it with FIN or RST.
func TestProbesOfThePortWriteNoLines(t *testing.T) {
	authority, err := parts.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	config, err := authority.Config([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log sharedbuffer.Buffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Serve(ctx, listener, config, http.NotFoundHandler(), slog.New(slog.NewTextHandler(&log, nil)))
	}()
	for i := range 10 {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
	// A host that does not trust the certificate is in the log, after the probes.
	for !strings.Contains(log.String(), "bad certificate") {
		if conn, err := tls.Dial("tcp", listener.Addr().String(), new(tls.Config)); err == nil {
			conn.Close()
			t.Fatal("the certificate is trusted")
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "EOF") || strings.Contains(text, "reset") {
		t.Errorf("the log is\n%s", text)
	}
}

func TestResolveListen(t *testing.T) {
	for _, tc := range []struct {
		address   string
		encrypted bool
		want      string // in the error
	}{
		{"127.0.0.1:3080", false, ""},
		{"[::1]:3080", false, ""},
		{"localhost:0", false, ""},
		{":3080", false, "loopback"},
		{"0.0.0.0:3080", false, "loopback"},
		{"[::]:3080", false, "loopback"},
		{"192.0.2.1:3080", false, "loopback"},
		{":3080", true, ""},
		{"192.0.2.1:3080", true, ""},
		{"3080", true, "missing port"},
		{"", true, "missing"},
		{"127.0.0.1:http-alt-alt", true, "port"},
	} {
		_, err := ResolveListen(tc.address, tc.encrypted)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("ResolveListen(%q, %t): %v; want %q", tc.address, tc.encrypted, err, tc.want)
		}
	}
}

func TestServeLetsRequestsUnderWayFinish(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	var finished atomic.Bool
	url, stop := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		io.WriteString(w, "finished")
		finished.Store(true)
	}), nil)
	body := make(chan string)
	go func() {
		resp, err := http.Get(url)
		if err != nil {
			body <- err.Error()
			return
		}
		defer resp.Body.Close()
		content, _ := io.ReadAll(resp.Body)
		body <- string(content)
	}()
	<-entered
	stopped := make(chan error)
	go func() {
		err := stop()
		if !finished.Load() {
			err = errors.New("Serve returned before the request under way was finished")
		}
		stopped <- err
	}()
	for { // until nobody is let in any more
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			break
		}
		conn.Close()
	}
	close(leave)
	if got := <-body; got != "finished" {
		t.Errorf("the request under way got %q", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
