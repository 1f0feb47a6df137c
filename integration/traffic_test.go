//go:build hosts

package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/internal/version"
)

// askAllTheTime asks a URL of the host every 25 ms, each time on a new
// connection. The returned function ends that and says how it went.
func (s *scene) askAllTheTime(url string) func() (n int, failed []error) {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
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
	s.t.Cleanup(stop)
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

// session is a user's session with the agent: it hears which process serves it
// ten times a second.
type session struct {
	t     testing.TB
	mu    sync.Mutex
	lines int
	last  string
	err   error
}

func (s *scene) openSession() *session {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://127.0.0.1:3000/session", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := s.HTTP().Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	c := &session{t: s.t}
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

// goesOn asserts that the session still hears from its process, from now on.
func (c *session) goesOn(from string) {
	c.t.Helper()
	c.mu.Lock()
	heard := c.lines
	c.mu.Unlock()
	host.Wait(c.t, patience, func() error {
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

// versions lists the folders of the store that are versions.
func (s *scene) versions() []string {
	s.t.Helper()
	names, err := s.Names(store)
	if err != nil {
		s.t.Fatal(err)
	}
	var found []string
	for _, name := range names {
		v, _, _ := strings.Cut(name, "_")
		if _, err := version.Parse(v); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// closed waits until no transaction is open and no switch runs.
func (s *scene) closed() {
	s.t.Helper()
	host.Wait(s.t, patience, func() error {
		if s.Exists(store + "/journal.json") {
			return fmt.Errorf("the journal is still there")
		}
		running := s.Must("systemctl", "list-units", "--plain", "--no-legend", "--state=running", "teleport-update-switch-*")
		if running != "" {
			return fmt.Errorf("a switch is still at work: %s", running)
		}
		return nil
	})
}

// answers waits until the agent that serves is of a version.
func (s *scene) answers(v string) {
	s.t.Helper()
	client := s.HTTP()
	host.Wait(s.t, patience, func() error {
		response, err := client.Get("http://127.0.0.1:3000/version")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		var who struct {
			Version string `json:"version"`
		}
		if err := json.NewDecoder(response.Body).Decode(&who); err != nil || who.Version != v {
			return fmt.Errorf("version %q serves (%v); want %s", who.Version, err, v)
		}
		return nil
	})
}

// badGateway is a fault of find alone.
func badGateway(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasSuffix(r.URL.Path, "/webapi/find") {
		return false
	}
	w.WriteHeader(http.StatusBadGateway)
	return true
}
