package installer

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
		{name: "a held version stays away", spec: active, status: held, answer: wants("15.1.2", version.OSS, true), reason: "the host is held"},
		{name: "a hold ends when the cluster wants something else", spec: active, status: held, answer: wants("15.1.3", version.OSS, true), want: doSwitch},
		{name: "a hold of one edition does not hold another", spec: active, status: held, answer: wants("15.1.2", version.Enterprise, true), want: doSwitch},
		{name: "a person releases a hold", spec: active, status: held, answer: wants("15.1.2", version.OSS, true), now: true, want: doSwitch},
		{name: "a version that failed is not tried before its time", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), reason: "failed 2 times"},
		{name: "a version that failed is tried when due", spec: active, status: failed("15.1.2", 0), answer: wants("15.1.2", version.OSS, true), want: doSwitch},
		{name: "a version that failed is still the one that failed", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), announced: "aa", reason: "failed 2 times"},
		{name: "a version that failed is tried when it was published again", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), announced: "bb", want: doSwitch},
		{name: "a new target is not held up by the failure of another", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.3", version.OSS, true), want: doSwitch},
		{name: "a person does not wait for the back-off", spec: active, status: failed("15.1.2", time.Hour), answer: wants("15.1.2", version.OSS, true), now: true, want: doSwitch},
		{name: "a next attempt beyond the longest delay is a clock that jumped", spec: active, status: failed("15.1.2", 15*24*time.Hour), answer: wants("15.1.2", version.OSS, true), want: doSwitch},
		{name: "a cluster that names no version wants no change", spec: active, status: oss, now: true, reason: "names no version"},
		{name: "nothing is active yet", spec: state.Spec{Enabled: true}, answer: wants("15.1.1", version.OSS, true), want: doSwitch},
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
		Spec: state.Spec{Enabled: true, ActiveVersion: "15.1.1"}, Time: noon, Announced: "bb",
		Status: state.Status{Failed: &state.Failed{Version: "15.1.2", NextAttempt: noon.Add(time.Hour)}},
		Answer: find.Answer{Version: "15.1.2", Edition: version.OSS, AutoUpdate: true},
	})
	if d.Action != doNothing || !d.BackingOff {
		t.Errorf("got %+v; want to stay backed off", d)
	}
}

func TestRollbackTarget(t *testing.T) {
	c := state.Config{
		Spec:   state.Spec{ActiveVersion: "15.1.2"},
		Status: state.Status{ActiveEdition: version.Enterprise, PreviousVersion: "15.1.1", PreviousEdition: version.OSS},
	}
	back := c
	back.Spec.ActiveVersion, back.Status.PreviousVersion = "15.1.1", "15.1.2"
	back.Status.Held = &state.Held{Version: "15.1.2"}
	for _, tc := range []struct {
		name    string
		c       state.Config
		version string
		want    version.Release
		refusal string
	}{
		{name: "the previous version, in its own edition", c: c, want: version.Release{Version: "15.1.1", Edition: version.OSS}},
		{name: "the previous version by name", c: c, version: "15.1.1", want: version.Release{Version: "15.1.1", Edition: version.OSS}},
		{name: "another version, in the active edition", c: c, version: "15.0.0", want: version.Release{Version: "15.0.0", Edition: version.Enterprise}},
		{name: "the active version", c: c, version: "15.1.2", refusal: "active already"},
		{name: "nothing active", c: state.Config{}, refusal: "no active version"},
		{name: "nothing previous", c: state.Config{Spec: state.Spec{ActiveVersion: "1.0.0"}}, refusal: "no previous version"},
		{name: "a second rollback must name its version", c: back, refusal: "name the version"},
		{name: "a second rollback that does", c: back, version: "15.1.2", want: version.Release{Version: "15.1.2", Edition: version.OSS}},
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
