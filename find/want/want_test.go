package want

import (
	"testing"
	"time"

	"teleport-update/internal/version"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func oss(v string) version.Release { return version.Release{Version: v, Edition: version.OSS} }

func wants(v string, e version.Edition, due bool) Wish {
	return Wish{Release: version.Release{Version: v, Edition: e}, Due: due}
}

func TestDecide(t *testing.T) {
	on := Agent{Active: oss("15.1.1")}
	failed := func(next time.Duration) Agent {
		return Agent{Active: on.Active, Failure: &Failure{SHA256: "aa", Attempts: 2, NextAttempt: noon.Add(next)}}
	}
	held := Agent{Active: on.Active, Hold: &Hold{Wish: oss("15.1.2"), Since: noon}}
	for _, tc := range []struct {
		name      string
		agent     Agent
		wish      Wish
		now       bool
		announced string // by the mirrors
		why       Why
		downgrade bool
	}{
		{name: "the wanted version is active", agent: on, wish: wants("15.1.1", version.OSS, true), why: Reached},
		{name: "a newer version is wanted", agent: on, wish: wants("15.1.2", version.OSS, true)},
		{name: "another edition of the same version is wanted", agent: on, wish: wants("15.1.1", version.Enterprise, true)},
		{name: "an older version is a downgrade", agent: on, wish: wants("15.1.0", version.OSS, true), downgrade: true},
		{name: "outside the window nothing happens", agent: on, wish: wants("15.1.2", version.OSS, false), why: NotDue},
		{name: "a person does not wait for the window", agent: on, wish: wants("15.1.2", version.OSS, false), now: true},
		{name: "a held version stays away", agent: held, wish: wants("15.1.2", version.OSS, true), why: Held},
		{name: "a hold ends when the cluster wants something else", agent: held, wish: wants("15.1.3", version.OSS, true)},
		{name: "a hold of one edition does not hold another", agent: held, wish: wants("15.1.2", version.Enterprise, true)},
		{name: "a person releases a hold", agent: held, wish: wants("15.1.2", version.OSS, true), now: true},
		{name: "a version that failed is not tried before its time", agent: failed(time.Hour), wish: wants("15.1.2", version.OSS, true), why: BackingOff},
		{name: "a version that failed is tried when due", agent: failed(0), wish: wants("15.1.2", version.OSS, true)},
		{name: "a version that failed is still the one that failed", agent: failed(time.Hour), wish: wants("15.1.2", version.OSS, true), announced: "aa", why: BackingOff},
		{name: "a version that failed is tried when it was published again", agent: failed(time.Hour), wish: wants("15.1.2", version.OSS, true), announced: "bb"},
		{name: "a person does not wait for the back-off", agent: failed(time.Hour), wish: wants("15.1.2", version.OSS, true), now: true},
		{name: "a next attempt beyond the longest delay is a clock that jumped", agent: failed(15 * 24 * time.Hour), wish: wants("15.1.2", version.OSS, true)},
		{name: "nor is one that a clock nine hours ahead has set", agent: failed(11 * time.Hour), wish: wants("15.1.2", version.OSS, true)},
		{name: "a clock that was set back a little holds nothing up for long", agent: failed(125 * time.Minute), wish: wants("15.1.2", version.OSS, true), why: BackingOff},
		{name: "a cluster that names no version wants no change", agent: on, now: true, why: NoVersion},
		{name: "nothing is active yet", wish: wants("15.1.1", version.OSS, true)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide(tc.wish, tc.agent, Turn{At: noon, Now: tc.now, Announced: tc.announced})
			want := Decision{Release: tc.wish.Release, Why: tc.why, Downgrade: tc.downgrade}
			switch {
			case tc.why == Held:
				want.When = tc.agent.Hold.Since
			case tc.why == BackingOff:
				want.When = tc.agent.Failure.NextAttempt
			case tc.announced == "bb":
				want.SHA256 = "bb"
			}
			if d != want || d.Change() != (tc.why == Changes) {
				t.Errorf("got %+v; want %+v", d, want)
			}
		})
	}
}

func TestAFailureWithoutADigestIsNotComparedWithOne(t *testing.T) {
	a := Agent{Active: oss("15.1.1"), Failure: &Failure{Attempts: 1, NextAttempt: noon.Add(time.Hour)}}
	if d := Decide(wants("15.1.2", version.OSS, true), a, Turn{At: noon, Announced: "bb"}); d.Why != BackingOff {
		t.Errorf("got %+v; want to stay backed off", d)
	}
}

func TestOnlyATimerWaitsBeforeAnAgentGoesBackOnceMore(t *testing.T) {
	a := Agent{Active: oss("15.1.1"), AgainAt: noon.Add(time.Hour)}
	wish := wants("15.1.2", version.OSS, true)
	if d := Decide(wish, a, Turn{At: noon}); !d.Change() {
		t.Errorf("a person's update: %+v", d)
	}
	if d := Decide(wish, a, Turn{At: noon, Scheduled: true}); d.Why != JustLeft || d.When != a.AgainAt {
		t.Errorf("the timer: %+v", d)
	}
}

func TestBackOffDoublesFromAnHourToTwoWeeks(t *testing.T) {
	for attempts, want := range map[int]time.Duration{
		1: time.Hour, 2: 2 * time.Hour, 5: 16 * time.Hour, 9: 256 * time.Hour, 10: LastRetry, 200: LastRetry,
	} {
		if got := RetryDelay(attempts); got != want {
			t.Errorf("after %d attempts: %v; want %v", attempts, got, want)
		}
	}
}
