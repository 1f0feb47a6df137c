//go:build hosts

package health

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teleport-update/systemd"
)

// Signals have a connection of their own, and nothing makes them arrive before
// the answer that tells what they brought about. An operator's stop must not be
// taken for the new version's exit then.
func TestHostAStopIsKnownThoughSignalsAreLate(t *testing.T) {
	for name, by := range map[string]Means{"restart": Restart, "reload": Reload} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newHostAgent(t, hostUnit{}, "", "")
			conn, err := systemd.DialRoot(t.Context(), lateSignals(t, 400*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			a.start()
			a.linkTo("2")
			stopped := a.meanwhile("stop", a.unit)
			w := a.watch()
			w.Window = of(30 * time.Second)
			_, err = Prove(t.Context(), conn, by, w)
			if e, ok := errors.AsType[*UnhealthyError](err); !ok || !e.Stopped {
				t.Errorf("%v; want Stopped", err)
			}
			<-stopped
		})
	}
}

// lateSignals has everything come late on the connection for signals.
func lateSignals(t *testing.T, late time.Duration) (root string) {
	t.Helper()
	return signalsThrough(t, func(to, from net.Conn) { forwardLate(to, from, late) })
}

// signalsThrough returns the root of a systemd whose second connection, the one for
// signals, carries what comes from systemd in a way of its own.
func signalsThrough(t *testing.T, forward func(to, from net.Conn)) (root string) {
	t.Helper()
	root = t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(root, "run/systemd/private"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 1; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			systemd, err := net.Dial("unix", "/run/systemd/private")
			if err != nil {
				t.Error(err)
				client.Close()
				return
			}
			go func() {
				io.Copy(systemd, client)
				systemd.Close()
			}()
			if n == 2 {
				go forward(client, systemd)
			} else {
				go forwardLate(client, systemd, 0)
			}
		}
	}()
	return root
}

// forwardLate keeps what it reads for a while, in its order.
func forwardLate(to, from net.Conn, late time.Duration) {
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces := make(chan piece, 1000)
	go func() {
		defer to.Close()
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			to.Write(p.data)
		}
	}()
	defer close(pieces)
	for {
		data := make([]byte, 4096)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		pieces <- piece{data[:n], time.Now().Add(late)}
	}
}
