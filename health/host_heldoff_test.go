//go:build hosts

package health

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"teleport-update/systemd"
)

// On a busy host the updater may not get to run between the start that it asked
// for and the operator's stop: then it hears of both in one breath.
func TestHostAStopIsKnownThoughItIsHeardOfWithTheStart(t *testing.T) {
	// Not beside other tests: with one processor, whoever waits for the start gets to
	// run only after all was heard.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a := newHostAgent(t, hostUnit{}, "", "")
	var g gate
	conn, err := systemd.DialRoot(t.Context(), signalsThrough(t, g.forward))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	a.start()
	a.linkTo("2")
	g.shut()
	stopped := a.meanwhile("stop", a.unit)
	go func() {
		<-stopped
		g.open()
	}()
	w := a.watch()
	w.Window = of(30 * time.Second)
	_, err = Prove(t.Context(), conn, Restart, w)
	if e, ok := errors.AsType[*UnhealthyError](err); !ok || !e.Stopped {
		t.Errorf("%v; want Stopped", err)
	}
}

// gate keeps what is to go through it while it is shut, in its order.
type gate struct {
	mu     sync.Mutex
	to     net.Conn
	closed bool
	kept   []byte
}

func (g *gate) forward(to, from net.Conn) {
	g.mu.Lock()
	g.to = to
	g.mu.Unlock()
	io.Copy(g, from)
	to.Close()
}

func (g *gate) Write(data []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.kept = append(g.kept, data...)
		return len(data), nil
	}
	return g.to.Write(data)
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.to.Write(g.kept)
}
