package state

import (
	"teleport-update/internal/version"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestBackOffDoublesFromAnHourToTwoWeeks(t *testing.T) {
	for attempts, want := range map[int]time.Duration{
		1: time.Hour, 2: 2 * time.Hour, 5: 16 * time.Hour, 9: 256 * time.Hour, 10: lastRetry, 200: lastRetry,
	} {
		if got := retryDelay(attempts); got != want {
			t.Errorf("after %d attempts: %v; want %v", attempts, got, want)
		}
	}
}

func TestFailuresCountPerVersionEditionAndDigest(t *testing.T) {
	r := Tree{Release: version.Release{Version: "15.1.2", Edition: version.OSS}, SHA256: "aa"}
	var s Status
	s.RecordFailure(r, noon, "first")
	s.RecordFailure(r, noon, "second")
	if s.Failed.Attempts != 2 || s.Failed.Error != "second" || !s.Failed.NextAttempt.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("after two failures: %+v", s.Failed)
	}
	for _, other := range []Tree{
		{Release: version.Release{Version: "15.1.2", Edition: version.OSS}, SHA256: "bb"},
		{Release: version.Release{Version: "15.1.2", Edition: version.FIPS}, SHA256: "bb"},
		{Release: version.Release{Version: "15.1.3", Edition: version.FIPS}, SHA256: "bb"},
	} {
		s.RecordFailure(other, noon, "x")
		if s.Failed.Attempts != 1 {
			t.Errorf("%+v begins with %d attempts; want 1", other, s.Failed.Attempts)
		}
	}
}

func TestTheThirdInterruptionOfAVersionCountsAsAFailure(t *testing.T) {
	r := version.Release{Version: "15.1.2", Edition: version.OSS}
	var s Status
	for n, want := range []bool{false, false, true} {
		if got := s.RecordInterruption(r); got != want {
			t.Errorf("interruption %d is too many: %v; want %v", n+1, got, want)
		}
	}
	if s.RecordInterruption(version.Release{Version: "15.1.3"}) {
		t.Error("the interruptions of one version counted for another")
	}
}
