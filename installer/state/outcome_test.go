package state

import (
	"fmt"
	"teleport-update/internal/version"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

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

// Two proxies behind one address want two versions in turn, and neither works here.
func TestVersionsThatFailInTurnAreBothRemembered(t *testing.T) {
	of := func(v string) version.Release { return version.Release{Version: v, Edition: version.OSS} }
	var s Status
	now := noon
	for round := 1; round <= 3; round++ {
		for _, v := range []string{"2.0.0", "3.0.0"} {
			s.RecordFailure(Tree{Release: of(v), SHA256: "aa"}, now, "died")
			if got := s.FailureOf(of(v)).Attempts; got != round {
				t.Errorf("round %d: %s failed %d times", round, v, got)
			}
			if !s.FailureOf(of("2.0.0")).BackingOff(of("2.0.0"), now) {
				t.Errorf("round %d: 2.0.0 is tried again at once after %s", round, v)
			}
		}
	}
	// The list is short, and the last one is where older updaters look for it.
	for n := range 2 * maxFailedBefore {
		s.RecordFailure(Tree{Release: of(fmt.Sprintf("4.0.%d", n))}, now, "died")
	}
	if s.Failed.Version != "4.0.7" || len(s.FailedBefore) != maxFailedBefore || s.FailedBefore[0].Version != "4.0.6" {
		t.Errorf("%+v, before it %+v", s.Failed, s.FailedBefore)
	}
	if s.FailureOf(of("2.0.0")) != nil || s.FailureOf(of("4.0.4")) == nil {
		t.Error("the oldest is to be forgotten first")
	}
	// Another tarball of the version takes the place of the one before.
	s.RecordFailure(Tree{Release: of("4.0.5"), SHA256: "bb"}, now, "died")
	for _, f := range s.FailedBefore {
		if f.Version == "4.0.5" {
			t.Errorf("4.0.5 is remembered twice: %+v", s.FailedBefore)
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

// A retry of the cluster makes a version due once, also where it fails again at once;
// what fails later for the first time is not lifted by it.
func TestARetryLiftsABackOffOncePerValue(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := version.Release{Version: "1.2.0", Edition: version.OSS}
	fail := func(s *Status) { s.RecordFailure(Tree{Release: r}, now, "it died") }
	first, second := now.Add(-time.Minute), now.Add(time.Minute)
	var s Status
	fail(&s)
	for _, step := range []struct {
		name        string
		at          time.Time
		news, waits bool
		then        func(*Status)
	}{
		{"no retry", time.Time{}, false, true, nil},
		{"a retry", first, true, false, fail},
		{"the same one again", first, false, true, nil},
		{"another retry", second, true, false, nil},
		{"an interrupted attempt, and the same retry", second, false, false, fail},
		{"a failure after it", second, false, true, nil},
	} {
		if news := s.TakeUpRetry(step.at, r, now); news != step.news {
			t.Errorf("%s: news %v; want %v", step.name, news, step.news)
		}
		if waits := s.FailureOf(r).BackingOff(r, now); waits != step.waits {
			t.Errorf("%s: the host waits %v; want %v", step.name, waits, step.waits)
		}
		if step.then != nil {
			step.then(&s)
		}
	}
	s = Status{}
	if !s.TakeUpRetry(first, r, now) {
		t.Error("a host on which nothing failed does not note the retry")
	}
	fail(&s)
	if s.TakeUpRetry(first, r, now); !s.FailureOf(r).BackingOff(r, now) {
		t.Error("a failure after the retry is lifted by it")
	}
	other := version.Release{Version: "1.1.0", Edition: version.OSS}
	if s.TakeUpRetry(second, other, now); !s.FailureOf(r).BackingOff(r, now) {
		t.Error("a retry of another version lifts it")
	}
}
