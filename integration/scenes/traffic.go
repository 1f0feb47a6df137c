package scenes

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/host"
)

// AskAllTheTime asks a URL of the host every 25 ms, each time on a new
// connection. The returned function ends that and says how it went.
func (s *Scene) AskAllTheTime(url string) func() (n int, failed []error) {
	s.T.Helper()
	ctx, stop := context.WithCancel(s.T.Context())
	done := make(chan struct{})
	var n int
	var failed []error
	client := s.HTTP()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := get(ctx, client, url); err != nil && ctx.Err() == nil {
				failed = append(failed, err)
			}
			n++
			select {
			case <-ctx.Done():
			case <-time.After(25 * time.Millisecond):
			}
		}
	}()
	s.T.Cleanup(stop)
	return func() (int, []error) {
		stop()
		<-done
		return n, failed
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// Session is a user's session with the agent: it hears which process serves it
// ten times a second.
type Session struct {
	t     testing.TB
	mu    sync.Mutex
	lines int
	last  string
	err   error
}

// OpenSession opens a session with the agent that serves now.
func (s *Scene) OpenSession() *Session {
	s.T.Helper()
	request, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, "http://127.0.0.1:3000/session", nil)
	if err != nil {
		s.T.Fatal(err)
	}
	response, err := s.HTTP().Do(request)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { response.Body.Close() })
	c := &Session{t: s.T}
	go func() {
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			c.mu.Lock()
			c.lines++
			c.last = lines.Text()
			c.mu.Unlock()
		}
		c.mu.Lock()
		c.err = fmt.Errorf("the session ended: %v", lines.Err())
		c.mu.Unlock()
	}()
	return c
}

// GoesOn asserts that the session still hears from its process, from now on.
func (c *Session) GoesOn(from string) {
	c.t.Helper()
	c.mu.Lock()
	heard := c.lines
	c.mu.Unlock()
	host.Wait(c.t, Patience, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.err != nil:
			return c.err
		case c.lines < heard+3:
			return fmt.Errorf("the session hears nothing any more, last %q", c.last)
		case c.last != from:
			return fmt.Errorf("the session hears %q; want %q", c.last, from)
		}
		return nil
	})
}
