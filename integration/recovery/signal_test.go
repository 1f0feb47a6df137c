//go:build hosts

package recovery

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/integration/host"
	"teleport-update/integration/scenes"
	"teleport-update/internal/version"
)

// Ctrl-C, wherever a run waits for something, ends it at once and in plain words.
func TestAnInterruptedWaitChangesNothing(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.RunsOn("1.0.0")
	hangs := func(w http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
	for _, tc := range []struct {
		name  string
		until func() error // the run waits
	}{
		{"for find", func() error {
			if s.Asked.Load() == 0 {
				return fmt.Errorf("the cluster was not asked")
			}
			return nil
		}},
		{"for its turn", nil},
	} {
		s.Breaks(nil)
		s.Set(find.Answer{Version: "1.1.0", Edition: version.OSS, AutoUpdate: true, Jitter: time.Hour})
		s.Asked.Store(0)
		if tc.until != nil {
			s.Breaks(hangs)
		}
		before := s.Look()
		p := s.Background(host.Command{Args: []string{updater, "update"}})
		host.Wait(t, patience, func() error {
			if tc.until != nil {
				return tc.until()
			}
			if _, said := p.Output(); !strings.Contains(said, "waiting a random time") {
				return fmt.Errorf("it says %q", said)
			}
			return nil
		})
		interrupted := time.Now()
		if err := p.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		r, err := p.Wait()
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(interrupted)
		if r.Code != 1 || took > 10*time.Second || !strings.Contains(r.Stderr, "interrupted") || !strings.Contains(r.Stderr, "stays on version 1.0.0") {
			t.Errorf("%s: exit code %d after %v:\n%s", tc.name, r.Code, took, r.Stderr)
		}
		for _, p := range scenes.Unclear(r.Stderr) {
			t.Errorf("%s: %s:\n%s", tc.name, p, r.Stderr)
		}
		s.Same(tc.name, before)
	}
}
