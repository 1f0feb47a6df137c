package installer

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/internal/version"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDecide(t *testing.T) {
	active := Spec{Enabled: true, ActiveVersion: "15.1.1"}
	oss := Status{ActiveEdition: version.OSS}
	wants := func(v string, e version.Edition, now bool) find.Answer {
		return find.Answer{Version: v, Edition: e, AutoUpdate: now}
	}
	failed := func(v string, next time.Duration) Status {
		return Status{ActiveEdition: version.OSS, Failed: &Failed{Version: v, Edition: version.OSS, SHA256: "aa", Attempts: 2, NextAttempt: noon.Add(next)}}
	}
	held := Status{ActiveEdition: version.OSS, Held: &Held{Version: "15.1.2", Edition: version.OSS, Since: noon}}
	for _, tc := range []struct {
		name      string
		spec      Spec
		status    Status
		answer    find.Answer
		now       bool
		announced string // by the mirrors
		want      action
		downgrade bool
		reason    string
	}{
		{name: "the wanted version is active", spec: active, status: oss, answer: wants("15.1.1", version.OSS, true), reason: "active and wanted"},
		{name: "a newer version is wanted", spec: active, status: oss, answer: wants("15.1.2", version.OSS, true), want: doSwitch},
		{name: "another edition of the same version is wanted", spec: active, status: oss, answer: wants("15.1.1", version.Enterprise, true), want: doSwitch},
		{name: "an older version is a downgrade", spec: active, status: oss, answer: wants("15.1.0", version.OSS, true), want: doSwitch, downgrade: true},
		{name: "outside the window nothing happens", spec: active, status: oss, answer: wants("15.1.2", version.OSS, false), reason: "not now"},
		{name: "a person does not wait for the window", spec: active, status: oss, answer: wants("15.1.2", version.OSS, false), now: true, want: doSwitch},
		{name: "a held version stays away", spec: active, status: held, answer: wants("15.1.2", version.OSS, true), reason: "held back"},
		{name: "a hold ends when find wants something else", spec: active, status: held, answer: wants("15.1.3", version.OSS, true), want: doSwitch},
		{name: "a hold of one edition does not hold another", spec: active, status: held, answer: wants("15.1.2", version.Enterprise, true), want: doSwitch},
		{name: "a person releases a hold", spec: active, status: held, answer: wants("15.1.2", version.OSS, true), now: true, want: doSwitch},
		{name: "a version that failed is not tried before its time", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), reason: "failed 2 time(s)"},
		{name: "a version that failed is tried when due", spec: active, status: failed("15.1.2", 0), answer: wants("15.1.2", version.OSS, true), want: doSwitch},
		{name: "a version that failed is still the one that failed", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), announced: "aa", reason: "failed 2 time(s)"},
		{name: "a version that failed is tried when it was published anew", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), announced: "bb", want: doSwitch},
		{name: "a new target is not held up by the failure of another", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.3", version.OSS, true), want: doSwitch},
		{name: "a person does not wait for the back-off", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), now: true, want: doSwitch},
		{name: "a next attempt beyond the longest delay is a clock that jumped", spec: active, status: failed("15.1.2", lastRetry+time.Hour), answer: wants("15.1.2", version.OSS, true), want: doSwitch},
		{name: "nothing is active yet", spec: Spec{Enabled: true}, answer: wants("15.1.1", version.OSS, true), want: doSwitch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := decide(question{Spec: tc.spec, Status: tc.status, Answer: tc.answer, Now: tc.now, Time: noon, Announced: tc.announced})
			if d.Action != tc.want || d.Downgrade != tc.downgrade || !strings.Contains(d.Reason, tc.reason) {
				t.Errorf("got %+v; want action %d, downgrade %v, a reason with %q", d, tc.want, tc.downgrade, tc.reason)
			}
			if d.BackingOff != strings.Contains(d.Reason, "failed") {
				t.Errorf("backing off is %v, but the reason is %q", d.BackingOff, d.Reason)
			}
			if tc.announced == "bb" && d.SHA256 != "bb" {
				t.Errorf("the new tarball is to have the checksum %q; want the one announced", d.SHA256)
			}
			if d.Target.Version != tc.answer.Version {
				t.Errorf("target %v; want what find named", d.Target)
			}
		})
	}
}

func TestAFailureWithoutADigestIsNotComparedWithOne(t *testing.T) {
	d := decide(question{
		Spec: Spec{Enabled: true, ActiveVersion: "15.1.1"}, Time: noon, Announced: "bb",
		Status: Status{Failed: &Failed{Version: "15.1.2", NextAttempt: noon.Add(time.Hour)}},
		Answer: find.Answer{Version: "15.1.2", Edition: version.OSS, AutoUpdate: true},
	})
	if d.Action != doNothing || !d.BackingOff {
		t.Errorf("got %+v; want to stay backed off", d)
	}
}

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
	r := release{Version: "15.1.2", Edition: version.OSS, SHA256: "aa"}
	var s Status
	recordFailure(&s, r, noon, "first")
	recordFailure(&s, r, noon, "second")
	if s.Failed.Attempts != 2 || s.Failed.Error != "second" || !s.Failed.NextAttempt.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("after two failures: %+v", s.Failed)
	}
	for _, other := range []release{
		{Version: "15.1.2", Edition: version.OSS, SHA256: "bb"},
		{Version: "15.1.2", Edition: version.FIPS, SHA256: "bb"},
		{Version: "15.1.3", Edition: version.FIPS, SHA256: "bb"},
	} {
		recordFailure(&s, other, noon, "x")
		if s.Failed.Attempts != 1 {
			t.Errorf("%+v begins with %d attempts; want 1", other, s.Failed.Attempts)
		}
	}
}

func TestTheThirdInterruptionOfAVersionCountsAsAFailure(t *testing.T) {
	r := release{Version: "15.1.2", Edition: version.OSS}
	var s Status
	for n, want := range []bool{false, false, true} {
		if got := recordInterruption(&s, r); got != want {
			t.Errorf("interruption %d is too many: %v; want %v", n+1, got, want)
		}
	}
	if recordInterruption(&s, release{Version: "15.1.3"}) {
		t.Error("the interruptions of one version counted for another")
	}
}

func TestRollbackTarget(t *testing.T) {
	c := Config{
		Spec:   Spec{ActiveVersion: "15.1.2"},
		Status: Status{ActiveEdition: version.Enterprise, PreviousVersion: "15.1.1", PreviousEdition: version.OSS},
	}
	back := c
	back.Spec.ActiveVersion, back.Status.PreviousVersion = "15.1.1", "15.1.2"
	back.Status.Held = &Held{Version: "15.1.2"}
	for _, tc := range []struct {
		name    string
		c       Config
		version string
		want    target
		refusal string
	}{
		{name: "the previous version, in its own edition", c: c, want: target{Version: "15.1.1", Edition: version.OSS}},
		{name: "the previous version by name", c: c, version: "15.1.1", want: target{Version: "15.1.1", Edition: version.OSS}},
		{name: "another version, in the active edition", c: c, version: "15.0.0", want: target{Version: "15.0.0", Edition: version.Enterprise}},
		{name: "the active version", c: c, version: "15.1.2", refusal: "active already"},
		{name: "nothing active", c: Config{}, refusal: "no active version"},
		{name: "nothing previous", c: Config{Spec: Spec{ActiveVersion: "1.0.0"}}, refusal: "no previous version"},
		{name: "a second rollback must name its version", c: back, refusal: "name the version"},
		{name: "a second rollback that does", c: back, version: "15.1.2", want: target{Version: "15.1.2", Edition: version.OSS}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := rollbackTarget(tc.c, tc.version)
			if tc.refusal == "" && (err != nil || got != tc.want) {
				t.Errorf("got %v, %v; want %v", got, err, tc.want)
			}
			if tc.refusal != "" && (err == nil || !strings.Contains(err.Error(), tc.refusal)) {
				t.Errorf("got %v, %v; want a refusal with %q", got, err, tc.refusal)
			}
		})
	}
}
