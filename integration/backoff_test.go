//go:build hosts

package integration

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/installer"
	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
)

func TestAVersionThatFailedWaitsForItsNextAttempt(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.2.0")
	s.release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart})
	s.running("1.0.0")
	s.wants("1.1.0")
	checksums := s.countChecksums()
	from := s.seen()

	if code := s.tick(); code != 1 {
		t.Errorf("the tick that meets the broken version ends with %d", code)
	}
	s.backsOff("1.1.0", 1, time.Hour)

	asked, downloaded, looked := s.asked.Load(), s.downloaded.Load(), checksums.Load()
	for range 3 {
		if code := s.tick(); code != 0 {
			t.Errorf("a tick that backs off ends with %d", code)
		}
	}
	if got := s.asked.Load() - asked; got != 3 {
		t.Errorf("three ticks asked find %d times", got)
	}
	if got := checksums.Load() - looked; got != 3 {
		t.Errorf("three ticks read the checksum %d times", got)
	}
	said := "version 1.1.0 failed 1 time(s), next attempt at " + s.status().NextAttempt.Format(time.RFC3339)
	if log := s.Log("teleport-update.service"); strings.Count(log, said) != 3 {
		t.Errorf("the timer's runs do not each say %q:\n%s", said, log)
	}
	s.fails(0, said, updater, "update")
	if out := s.Must(updater, "update", "--dry-run"); !strings.Contains(out, "Nothing would be done: "+said) {
		t.Errorf("the dry run says %q", out)
	}
	if got := s.downloaded.Load(); got != downloaded {
		t.Errorf("%d bytes were downloaded while the version backs off", got-downloaded)
	}
	s.switched(1, "1.1.0")
	s.backsOff("1.1.0", 1, time.Hour)

	// A person does not wait, and the delay doubles.
	s.fails(1, "version 1.1.0 did not hold", updater, "update", "--now")
	s.switched(2, "1.1.0")
	s.backsOff("1.1.0", 2, 2*time.Hour)

	// The time comes; a clock that jumped counts as if it had.
	for n, next := range []time.Duration{-time.Second, 15 * 24 * time.Hour} {
		s.nextAttempt(time.Now().Add(next))
		if code := s.tick(); code != 1 {
			t.Errorf("the tick with the next attempt in %v ends with %d", next, code)
		}
		s.switched(3+n, "1.1.0")
		s.backsOff("1.1.0", 3+n, 4*time.Hour<<n)
	}
	if now := s.seen(); from.became(now) != inPeace {
		t.Errorf("the agent was %s by failed reloads", from.became(now))
	}

	// Another version does not wait for this one.
	s.wants("1.2.0")
	if code := s.tick(); code != 0 {
		t.Errorf("the tick with a new target ends with %d", code)
	}
	s.serves("1.2.0")
	if r := s.status(); r.State != installer.StateIdle || r.FailedVersion != nil || r.FailedAttempts != nil || r.NextAttempt != nil {
		t.Errorf("status after a version that holds: %+v", r)
	}
}

func TestAVersionThatDoesNotRunIsDownloadedOnce(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.release(release.Spec{Version: "1.1.0", Variant: stamp.Unrunnable})
	s.running("1.0.0")
	s.wants("1.1.0")
	if code := s.tick(); code != 1 {
		t.Errorf("the tick that meets the broken version ends with %d", code)
	}
	downloaded := s.downloaded.Load()
	for range 2 {
		if code := s.tick(); code != 0 {
			t.Errorf("a tick that backs off ends with %d", code)
		}
	}
	if got := s.downloaded.Load(); got != downloaded {
		t.Errorf("%d bytes were downloaded while the version backs off", got-downloaded)
	}
	s.backsOff("1.1.0", 1, time.Hour)
	s.switched(0, "1.1.0")
}

func TestAReleaseThatIsPublishedAnewDoesNotWait(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0")
	s.release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart})
	s.running("1.0.0")
	s.wants("1.1.0")
	s.fails(1, "version 1.1.0 did not hold", updater, "update")
	s.fails(1, "version 1.1.0 did not hold", updater, "update", "--now")
	s.backsOff("1.1.0", 2, 2*time.Hour)

	// A server that cannot tell leaves it at that.
	s.release(release.Spec{Version: "1.1.0", Variant: stamp.ExitsAtStart, Pad: 1})
	s.breaks(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, ".sha256") {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	downloaded := s.downloaded.Load()
	if code := s.tick(); code != 0 {
		t.Errorf("the tick without a checksum ends with %d", code)
	}
	if got := s.downloaded.Load(); got != downloaded {
		t.Errorf("%d bytes were downloaded without a checksum", got-downloaded)
	}
	s.backsOff("1.1.0", 2, 2*time.Hour)

	// Another tarball is another release: it is tried, and fails for the first time.
	s.breaks(nil)
	if code := s.tick(); code != 1 {
		t.Errorf("the tick that meets the second broken release ends with %d", code)
	}
	s.backsOff("1.1.0", 1, time.Hour)
	if log := s.Log("teleport-update.service"); !strings.Contains(log, "the version that failed was published anew; it is tried again version=1.1.0") {
		t.Errorf("the tick does not say why it tries again:\n%s", log)
	}
	if code := s.tick(); code != 0 {
		t.Errorf("the tick after that ends with %d", code)
	}
	s.switched(3, "1.1.0")

	s.release(release.Spec{Version: "1.1.0"})
	if code := s.tick(); code != 0 {
		t.Errorf("the tick that meets the sound release ends with %d", code)
	}
	s.serves("1.1.0")
}

// A version that failed stays on disk as long as something runs from it: then
// what is on disk is not what was published anew.
func TestAReleaseThatIsPublishedAnewReplacesTheOneOnDisk(t *testing.T) {
	s := newScene(t)
	s.sound("1.0.0", "1.1.0")
	var ready atomic.Bool
	s.running("1.0.0", "--health-window", "1s", "--ready-url", s.readyOnce(&ready))
	s.wants("1.1.0")
	update := s.Background(host.Command{Args: []string{updater, "update"}})
	s.switching("1.1.0")
	s.Background(host.Command{Args: []string{store + "/1.1.0/bin/teleport", "start", "--data-dir", "/tmp/other", "--diag-addr", "127.0.0.1:3002"}})
	s.ends(update, 1)
	s.serves("1.0.0")
	s.backsOff("1.1.0", 1, time.Hour)
	failed := s.Read(store + "/1.1.0/sha256")

	ready.Store(true)
	s.release(release.Spec{Version: "1.1.0", Pad: 1})
	if code := s.tick(); code != 0 {
		t.Errorf("the tick that meets the new release ends with %d", code)
	}
	s.serves("1.1.0")
	if now := s.Read(store + "/1.1.0/sha256"); now == failed {
		t.Error("the agent runs the release that failed")
	}
	s.Must(updater, "verify")
}

// backsOff asserts what status says about a version that failed.
func (s *scene) backsOff(v string, attempts int, delay time.Duration) {
	s.t.Helper()
	r := s.status()
	if r.State != installer.StateBackingOff || text(r.FailedVersion) != v || r.FailedAttempts == nil || *r.FailedAttempts != attempts ||
		r.NextAttempt == nil || !near(time.Until(*r.NextAttempt), delay) || r.LastError == nil {
		got := "no"
		if r.FailedAttempts != nil {
			got = fmt.Sprint(*r.FailedAttempts)
		}
		s.t.Errorf("status: %s, version %s failed after %s attempts, the next at %v, error %s; want %s to back off after %d attempts for %v",
			r.State, text(r.FailedVersion), got, r.NextAttempt, text(r.LastError), v, attempts, delay)
	}
}

// countChecksums counts the requests for checksums from now on.
func (s *scene) countChecksums() *atomic.Int64 {
	n := new(atomic.Int64)
	s.breaks(func(_ http.ResponseWriter, r *http.Request) bool {
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
	s.t.Helper()
	old := s.Read(store + "/updates.yaml")
	if !nextAttemptLine.MatchString(old) {
		s.t.Fatalf("no next attempt in:\n%s", old)
	}
	s.configure(nextAttemptLine.ReplaceAllString(old, "$1 "+at.UTC().Format(time.RFC3339)))
}
