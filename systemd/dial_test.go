package systemd

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// root is the root of a host on which systemd runs, and its private socket.
func hostRoot(t *testing.T) (root, socket string) {
	if os.Geteuid() != 0 {
		t.Skip("the private socket is for root")
	}
	root = t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	return root, filepath.Join(root, "run/systemd/private")
}

// greet is a systemd's part of the handshake of D-Bus.
func greet(c net.Conn) {
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case err != nil:
			return
		case strings.Contains(line, "AUTH EXTERNAL"):
			io.WriteString(c, "DATA\r\n")
		case strings.HasPrefix(line, "DATA"):
			io.WriteString(c, "OK 0123456789abcdef0123456789abcdef\r\n")
		case strings.Contains(line, "AUTH"):
			io.WriteString(c, "REJECTED EXTERNAL\r\n")
		case strings.HasPrefix(line, "NEGOTIATE_UNIX_FD"):
			io.WriteString(c, "AGREE_UNIX_FD\r\n")
		case strings.HasPrefix(line, "BEGIN"):
			// Each call is answered by a message that says no more than that.
			for {
				call, err := dbus.DecodeMessage(lines)
				if err != nil {
					return
				}
				serial := binary.LittleEndian.AppendUint32(nil, call.Serial())
				header := append([]byte{'l', 2, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 5, 1, 'u', 0}, serial...)
				c.Write(header)
			}
		}
	}
}

func serve(t *testing.T, socket string, do func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			go do(c)
		}
	}()
}

// systemd re-executes itself: its socket is gone for a moment.
func TestADialThatFailsIsTriedAgain(t *testing.T) {
	root, socket := hostRoot(t)
	go func() {
		time.Sleep(4 * redialPause)
		serve(t, socket, greet)
	}()
	conn, err := DialRoot(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestADialThatIsNotAnsweredEnds(t *testing.T) {
	root, socket := hostRoot(t)
	serve(t, socket, func(net.Conn) {})
	_, err := dialer{root, time.Millisecond, 50 * time.Millisecond}.dial(t.Context())
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("it ends with %v", err)
	}
}

// Who is told to stop in a dial stops, and goes on with nothing for want of a systemd.
func TestASignalInADialIsASignal(t *testing.T) {
	for name, silent := range map[string]bool{"that is not answered": true, "that fails": false} {
		t.Run(name, func(t *testing.T) {
			root, socket := hostRoot(t)
			if silent {
				serve(t, socket, func(net.Conn) {})
			}
			cause := errors.New("told to stop")
			ctx, stop := context.WithCancelCause(t.Context())
			go func() {
				time.Sleep(4 * redialPause)
				stop(cause)
			}()
			if _, err := DialRoot(ctx, root); !errors.Is(err, cause) || errors.Is(err, ErrUnreachable) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// A systemd that re-executes itself closes its end; the next call is written before anybody has read the end of
// the connection. It is made again on a new one: the old one says nothing about a unit.
func TestACallThatCannotBeWrittenIsMadeAgain(t *testing.T) {
	root, socket := hostRoot(t)
	var connections atomic.Int32
	var first sync.Map
	serve(t, socket, func(c net.Conn) {
		if connections.Add(1) <= 2 { // the one for calls and the one for signals
			first.Store(c, nil)
		}
		greet(c)
	})
	conn, err := DialRoot(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first.Range(func(c, _ any) bool { return c.(*net.UnixConn).CloseRead() == nil })

	// The answers of this server are empty, which is no property.
	_, err = conn.Stopping(t.Context())
	if n := connections.Load(); n != 4 || errors.Is(err, syscall.EPIPE) {
		t.Errorf("after %d connections it ends with %v", n, err)
	}
}
