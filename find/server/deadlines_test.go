package server

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sweptPair is a connection that a sweptListener accepted, and its other end.
func sweptPair(t *testing.T) (l *sweptListener, c *sweptConn, other net.Conn) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = newSweptListener(tcp)
	t.Cleanup(func() { l.Close() })
	if other, err = net.Dial("tcp", tcp.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return l, conn.(*sweptConn), other
}

// A read that waits ends with the first sweep after its deadline, and not before.
func TestADeadlineIsTrueFromTheSweepAfterIt(t *testing.T) {
	l, c, other := sweptPair(t)
	deadline := time.Now().Add(time.Hour)
	if err := c.SetReadDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	reading := func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}
	go reading()
	l.sweep(deadline.Add(-time.Nanosecond))
	other.Write([]byte("x"))
	if err := <-read; err != nil {
		t.Fatalf("before its deadline a read ends with %v", err)
	}
	go reading()
	l.sweep(deadline)
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after its deadline a read ends with %v", err)
	}
	// Another deadline takes the place of one that is over.
	if err := c.SetDeadline(deadline.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	other.Write([]byte("y"))
	go reading()
	if err := <-read; err != nil {
		t.Errorf("with a new deadline a read ends with %v", err)
	}
}

// net/http stops its own reader with a deadline that was over long ago, at once, and goes on to read.
func TestADeadlineThatIsOverAlreadyWaitsForNoSweep(t *testing.T) {
	_, c, other := sweptPair(t)
	if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read ends with %v", err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	other.Write([]byte("x"))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("without a deadline a read ends with %v", err)
	}
}

func TestAWriteThatNobodyTakesEndsWithTheSweepAfterItsDeadline(t *testing.T) {
	l, c, _ := sweptPair(t)
	deadline := time.Now().Add(time.Hour)
	if err := c.SetWriteDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	go func() {
		_, err := c.Write(make([]byte, 64<<20)) // no buffer has the room
		written <- err
	}()
	l.sweep(deadline.Add(-time.Second))
	select {
	case err := <-written:
		t.Fatalf("before its deadline a write ends with %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	l.sweep(deadline)
	if err := <-written; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write ends with %v", err)
	}
}

// Whatever was set last is what holds, however sweeps and the deadlines of others fall between.
func TestNoSweepEndsAReadWhoseDeadlineIsYetToCome(t *testing.T) {
	l, c, other := sweptPair(t)
	go io.Copy(other, other) // it says everything again
	stop := make(chan struct{})
	var sweeping sync.WaitGroup
	for range 2 {
		sweeping.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					l.sweep(time.Now().Add(time.Minute))
				}
			}
		})
	}
	buf := make([]byte, 1)
	for n := range 2_000 {
		// Some are over at the next sweep, some are over at once, and the last one is not.
		for range rand.IntN(3) {
			c.SetReadDeadline([]time.Time{time.Now().Add(time.Second), time.Unix(1, 0), {}}[rand.IntN(3)])
		}
		c.SetReadDeadline([]time.Time{time.Now().Add(time.Hour), {}}[rand.IntN(2)])
		if _, err := c.Write(buf); err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
		if _, err := c.Read(buf); err != nil {
			t.Fatalf("read %d: %v", n, err)
		}
	}
	close(stop)
	sweeping.Wait()
}

// A connection that is closed is swept no more.
func TestTheListenerForgetsAConnectionThatIsClosed(t *testing.T) {
	l, c, _ := sweptPair(t)
	if len(l.conns) != 1 {
		t.Fatalf("%d connections; want 1", len(l.conns))
	}
	c.Close()
	if len(l.conns) != 0 {
		t.Errorf("%d connections; want none", len(l.conns))
	}
}

// Whoever connects and says nothing, stops in the middle of a header, or asks nothing any more,
// is let go within its time and a sweep.
func TestTheServerLetsGoOfWhoeverIsSilent(t *testing.T) {
	for _, tc := range []struct {
		name, says, answer string
	}{
		{"says nothing", "", ""},
		{"stops in the middle of a header", "GET / HTTP/1.1\r\nHost: x\r\nX-", ""},
		{"asks nothing any more", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tcp, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			swept := newSweptListener(tcp)
			server := WithLimits()
			server.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here\n") })
			go server.Serve(swept)
			defer server.Close()
			conn, err := net.Dial("tcp", tcp.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, tc.says)
			all := bufio.NewReader(conn)
			if tc.answer != "" {
				if line, _ := all.ReadString('\n'); !strings.HasPrefix(line, tc.answer) {
					t.Fatalf("the answer begins with %q", line)
				}
			}
			gone := make(chan struct{})
			go func() {
				io.Copy(io.Discard, all)
				close(gone)
			}()
			// However late the server gets to set the deadline, one of these sweeps is after it.
			for waits := true; waits; {
				select {
				case <-gone:
					waits = false
				case <-time.After(time.Millisecond):
					swept.sweep(time.Now().Add(max(headerTime, idleTime) + sweepEvery))
				}
			}
		})
	}
}

// The sweeps go on until they are to end.
func TestSweepsComeEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newSweptListener(nil)
		c := &sweptConn{listener: l}
		var told atomic.Int32
		c.read.set = func(time.Time) error { told.Add(1); return nil }
		c.write.set = c.read.set
		l.conns[c] = struct{}{}
		c.SetReadDeadline(time.Now().Add(1500 * time.Millisecond))
		done := make(chan struct{})
		go l.sweepUntil(done)
		time.Sleep(1900 * time.Millisecond)
		synctest.Wait()
		if n := told.Load(); n != 0 {
			t.Errorf("after 1.9 s the connection was told %d times that a deadline is over", n)
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if n := told.Load(); n != 1 {
			t.Errorf("after 2.1 s the connection was told %d times that a deadline is over; want once", n)
		}
		close(done) // or the bubble would not end
	})
}
