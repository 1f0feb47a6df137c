package decision

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestDecide(t *testing.T) {
	active := state.Spec{Enabled: true, ActiveVersion: "15.1.1"}
	oss := state.Status{ActiveEdition: version.OSS}
	wants := func(v string, e version.Edition, now bool) find.Answer {
		return find.Answer{Version: v, Edition: e, AutoUpdate: now}
	}
	failed := func(v string, next time.Duration) state.Status {
		return state.Status{ActiveEdition: version.OSS, Failed: &state.Failed{Version: v, Edition: version.OSS, SHA256: "aa", Attempts: 2, NextAttempt: noon.Add(next)}}
	}
	held := state.Status{ActiveEdition: version.OSS, Held: &state.Held{Version: "15.1.2", Edition: version.OSS, Since: noon}}
	for _, tc := range []struct {
		name      string
		spec      state.Spec
		status    state.Status
		answer    find.Answer
		now       bool
		announced string // by the mirrors
		want      Action
		downgrade bool
		reason    string
	}{
		{name: "the wanted version is active", spec: active, status: oss, answer: wants("15.1.1", version.OSS, true), reason: "active and wanted"},
		{name: "a newer version is wanted", spec: active, status: oss, answer: wants("15.1.2", version.OSS, true), want: Switch},
		{name: "another edition of the same version is wanted", spec: active, status: oss, answer: wants("15.1.1", version.Enterprise, true), want: Switch},
		{name: "an older version is a downgrade", spec: active, status: oss, answer: wants("15.1.0", version.OSS, true), want: Switch, downgrade: true},
		{name: "outside the window nothing happens", spec: active, status: oss, answer: wants("15.1.2", version.OSS, false), reason: "not now"},
		{name: "a person does not wait for the window", spec: active, status: oss, answer: wants("15.1.2", version.OSS, false), now: true, want: Switch},
		{name: "a held version stays away", spec: active, status: held, answer: wants("15.1.2", version.OSS, true), reason: "the host is held"},
		{name: "a hold ends when the cluster wants something else", spec: active, status: held, answer: wants("15.1.3", version.OSS, true), want: Switch},
		{name: "a hold of one edition does not hold another", spec: active, status: held, answer: wants("15.1.2", version.Enterprise, true), want: Switch},
		{name: "a person releases a hold", spec: active, status: held, answer: wants("15.1.2", version.OSS, true), now: true, want: Switch},
		{name: "a version that failed is not tried before its time", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), reason: "failed 2 times"},
		{name: "a version that failed is tried when due", spec: active, status: failed("15.1.2", 0), answer: wants("15.1.2", version.OSS, true), want: Switch},
		{name: "a version that failed is still the one that failed", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), announced: "aa", reason: "failed 2 times"},
		{name: "a version that failed is tried when it was published again", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), announced: "bb", want: Switch},
		{name: "a new target is not held up by the failure of another", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.3", version.OSS, true), want: Switch},
		{name: "a person does not wait for the back-off", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), now: true, want: Switch},
		{name: "a next attempt beyond the longest delay is a clock that jumped", spec: active, status: failed("15.1.2", 15*24*time.Hour), answer: wants("15.1.2", version.OSS, true), want: Switch},
		{name: "nor is one that a clock nine hours ahead has set", spec: active, status: failed("15.1.2", 11*time.Hour), answer: wants("15.1.2", version.OSS, true), want: Switch},
		{name: "a clock that was set back a little holds nothing up for long", spec: active, status: failed("15.1.2", 125*time.Minute), answer: wants("15.1.2", version.OSS, true), reason: "failed 2 times"},
		{name: "a cluster that names no version wants no change", spec: active, status: oss, now: true, reason: "names no version"},
		{name: "nothing is active yet", spec: state.Spec{Enabled: true}, answer: wants("15.1.1", version.OSS, true), want: Switch},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide(Wish{Spec: tc.spec, Status: tc.status, Answer: tc.answer, Now: tc.now, Time: noon, Announced: tc.announced})
			if d.Action != tc.want || d.Downgrade != tc.downgrade || !strings.Contains(d.Reason, tc.reason) {
				t.Errorf("got %+v; want Action %d, downgrade %v, a reason with %q", d, tc.want, tc.downgrade, tc.reason)
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
	d := Decide(Wish{
		Spec: state.Spec{Enabled: true, ActiveVersion: "15.1.1"}, Time: noon, Announced: "bb",
		Status: state.Status{Failed: &state.Failed{Version: "15.1.2", NextAttempt: noon.Add(time.Hour)}},
		Answer: find.Answer{Version: "15.1.2", Edition: version.OSS, AutoUpdate: true},
	})
	if d.Action != Nothing || !d.BackingOff {
		t.Errorf("got %+v; want to stay backed off", d)
	}
}

// A rollback by hand holds back the version that was left, and the wish that find names first after
// it, whether or not that was known; a wish that comes later is followed.
func TestWhatARollbackHoldsBack(t *testing.T) {
	const active, left, known, third, later = "1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"
	for name, answers := range map[string][]struct {
		wish string
		held bool
	}{
		"the cluster wants the one that was left":    {{left, true}, {left, true}, {later, false}},
		"the cluster wants what it wanted before":    {{known, true}, {known, true}, {left, true}, {later, false}},
		"the cluster wants a third":                  {{third, true}, {third, true}, {left, true}, {known, false}},
		"the cluster wants what was gone back to":    {{active, false}, {left, true}, {later, false}},
		"the cluster names none, and then a third":   {{"", false}, {third, true}, {left, true}, {later, false}},
		"the cluster wants the third after the left": {{left, true}, {third, false}},
	} {
		t.Run(name, func(t *testing.T) {
			held := &state.Held{Version: known, Edition: version.OSS, Since: noon, LeftVersion: left, LeftEdition: version.OSS}
			running := version.Release{Version: active, Edition: version.OSS}
			for n, a := range answers {
				wish := version.Release{Version: a.wish, Edition: version.OSS}
				held.Hear(wish, running)
				d := Decide(Wish{
					Spec:   state.Spec{Enabled: true, ActiveVersion: active},
					Status: state.Status{ActiveEdition: version.OSS, Held: held},
					Answer: find.Answer{Version: a.wish, Edition: version.OSS, AutoUpdate: true}, Time: noon,
				})
				if isHeld := strings.Contains(d.Reason, "the host is held"); isHeld != a.held || (d.Action == Switch) == (a.held || a.wish == "" || a.wish == active) {
					t.Errorf("answer %d, %q: %+v; want held %v", n, a.wish, d, a.held)
				}
			}
		})
	}
}

func TestOnlyTheTimerWaitsBeforeAHostGoesBackOnceMore(t *testing.T) {
	q := Wish{
		Spec: state.Spec{Enabled: true, ActiveVersion: "15.1.1"}, Time: noon,
		Status: state.Status{ActiveEdition: version.OSS, Returned: &state.Returned{Version: "15.1.2", Edition: version.OSS, Since: noon.Add(-time.Minute)}},
		Answer: find.Answer{Version: "15.1.2", Edition: version.OSS, AutoUpdate: true},
	}
	if d := Decide(q); d.Action != Switch {
		t.Errorf("a person's update: %+v", d)
	}
	q.Timer = true
	if d := Decide(q); d.Action != Nothing || !strings.Contains(d.Reason, "its servers may disagree") {
		t.Errorf("the timer: %+v", d)
	}
	q.Answer.Version = "15.1.3"
	if d := Decide(q); d.Action != Switch {
		t.Errorf("the timer, to a third version: %+v", d)
	}
}
