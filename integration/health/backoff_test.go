//go:build hosts

package health

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/scenes"
)

func TestAVersionThatFailedWaitsForItsNextAttempt(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.2.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart})
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	checksums := s.countChecksums()
	from := s.Seen()

	if code := s.Tick(); code != 1 {
		t.Errorf("the tick that meets the broken version ends with %d", code)
	}
	s.BacksOff("1.1.0", 1, time.Hour)

	asked, downloaded, looked := s.Asked.Load(), s.Downloaded.Load(), checksums.Load()
	for range 3 {
		if code := s.Tick(); code != 0 {
			t.Errorf("a tick that backs off ends with %d", code)
		}
	}
	if got := s.Asked.Load() - asked; got != 3 {
		t.Errorf("three ticks asked find %d times", got)
	}
	if got := checksums.Load() - looked; got != 3 {
		t.Errorf("three ticks read the checksum %d times", got)
	}
	said := "version 1.1.0 failed 1 time, next attempt at " + s.Status().NextAttempt.Format(time.RFC3339)
	if log := s.Log("teleport-update.service"); strings.Count(log, said) != 3 {
		t.Errorf("the timer's runs do not each say %q:\n%s", said, log)
	}
	s.Fails(0, said, updater, "update")
	if out := s.Must(updater, "update", "--dry-run"); !strings.Contains(out, "Nothing would be done: "+said) {
		t.Errorf("the dry run says %q", out)
	}
	if got := s.Downloaded.Load(); got != downloaded {
		t.Errorf("%d bytes were downloaded while the version backs off", got-downloaded)
	}
	s.Switched(1, "1.1.0")
	s.BacksOff("1.1.0", 1, time.Hour)

	// A person does not wait, and the delay doubles.
	s.Fails(1, "version 1.1.0 was not healthy", updater, "update", "--now")
	s.Switched(2, "1.1.0")
	s.BacksOff("1.1.0", 2, 2*time.Hour)

	// The time comes; a clock that jumped counts as if it had.
	for n, next := range []time.Duration{-time.Second, 15 * 24 * time.Hour} {
		s.nextAttempt(time.Now().Add(next))
		if code := s.Tick(); code != 1 {
			t.Errorf("the tick with the next attempt in %v ends with %d", next, code)
		}
		s.Switched(3+n, "1.1.0")
		s.BacksOff("1.1.0", 3+n, 4*time.Hour<<n)
	}
	if now := s.Seen(); from.Became(now) != scenes.InPeace {
		t.Errorf("the agent was %s by failed reloads", from.Became(now))
	}
	if got := s.Downloaded.Load(); got != downloaded {
		t.Errorf("%d bytes were downloaded for four attempts at what is on disk", got-downloaded)
	}
	if got := s.Versions(); !slices.Equal(got, []string{"1.0.0", "1.1.0"}) {
		t.Errorf("on disk are %v", got)
	}

	// Another version does not wait for this one.
	s.Wants("1.2.0")
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick with a new target ends with %d", code)
	}
	s.Serves("1.2.0")
	if got := s.Versions(); !slices.Equal(got, []string{"1.0.0", "1.2.0"}) {
		t.Errorf("on disk are %v once another version is proven", got)
	}
	if r := s.Status(); r.State != decision.Idle || r.FailedVersion != nil || r.FailedAttempts != nil || r.NextAttempt != nil {
		t.Errorf("status after a healthy version: %+v", r)
	}
}

func TestAVersionThatDoesNotRunIsDownloadedOnce(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.Unrunnable})
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	if code := s.Tick(); code != 1 {
		t.Errorf("the tick that meets the broken version ends with %d", code)
	}
	downloaded := s.Downloaded.Load()
	for range 2 {
		if code := s.Tick(); code != 0 {
			t.Errorf("a tick that backs off ends with %d", code)
		}
	}
	if got := s.Downloaded.Load(); got != downloaded {
		t.Errorf("%d bytes were downloaded while the version backs off", got-downloaded)
	}
	s.BacksOff("1.1.0", 1, time.Hour)
	s.Switched(0, "1.1.0")
}

func TestAReleaseThatIsPublishedAnewDoesNotWait(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart})
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	s.Fails(1, "version 1.1.0 was not healthy", updater, "update")
	s.Fails(1, "version 1.1.0 was not healthy", updater, "update", "--now")
	s.BacksOff("1.1.0", 2, 2*time.Hour)

	// A server that cannot tell leaves it at that.
	s.Release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart, Pad: 1})
	s.Breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".sha256") {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	downloaded := s.Downloaded.Load()
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick without a checksum ends with %d", code)
	}
	if got := s.Downloaded.Load(); got != downloaded {
		t.Errorf("%d bytes were downloaded without a checksum", got-downloaded)
	}
	s.BacksOff("1.1.0", 2, 2*time.Hour)

	// Another tarball is another release: it is tried, and fails for the first time.
	s.Breaks(nil)
	if code := s.Tick(); code != 1 {
		t.Errorf("the tick that meets the second broken release ends with %d", code)
	}
	s.BacksOff("1.1.0", 1, time.Hour)
	if log := s.Log("teleport-update.service"); !strings.Contains(log, "the version that failed was published again; it is tried again version=1.1.0") {
		t.Errorf("the tick does not say why it tries again:\n%s", log)
	}
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick after that ends with %d", code)
	}
	s.Switched(3, "1.1.0")

	s.Release(release.Spec{Version: "1.1.0"})
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that meets the sound release ends with %d", code)
	}
	s.Serves("1.1.0")
}

// A version that failed stays on disk as long as something runs from it: then
// what is on disk is not what was published anew.
func TestAReleaseThatIsPublishedAnewReplacesTheOneOnDisk(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	var ready atomic.Bool
	s.RunsOn("1.0.0", "--health-window", "1s", "--ready-url", s.readyOnce(&ready))
	s.Wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.Switching("1.1.0")
	s.Background(host.Command{Args: []string{programs + "/1.1.0/bin/teleport", "start", "--data-dir", "/tmp/other", "--diag-addr", "127.0.0.1:3002"}})
	s.Ends(update, 1)
	s.Serves("1.0.0")
	s.BacksOff("1.1.0", 1, time.Hour)
	failed := s.Read(store + "/1.1.0/sha256")

	ready.Store(true)
	s.Release(release.Spec{Version: "1.1.0", Pad: 1})
	if code := s.Tick(); code != 0 {
		t.Errorf("the tick that meets the new release ends with %d", code)
	}
	s.Serves("1.1.0")
	if now := s.Read(store + "/1.1.0/sha256"); now == failed {
		t.Error("the agent runs the release that failed")
	}
	s.Must(updater, "verify")
}

// countChecksums counts the requests for checksums from now on.
func (s *scene) countChecksums() *atomic.Int64 {
	n := new(atomic.Int64)
	s.Breaks(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			n.Add(1)
		}
		return false
	})
	return n
}

var nextAttemptLine = regexp.MustCompile(`(?m)^( *next_attempt:).*$`)

// nextAttempt moves the time of the next attempt, as the clock would move
// towards it.
func (s *scene) nextAttempt(at time.Time) {
	s.T.Helper()
	old := s.Read(store + "/updates.yaml")
	if !nextAttemptLine.MatchString(old) {
		s.T.Fatalf("no next attempt in:\n%s", old)
	}
	s.Configure(nextAttemptLine.ReplaceAllString(old, "$1 "+at.UTC().Format(time.RFC3339)))
}
