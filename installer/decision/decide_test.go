package decision

import (
	"testing"
	"time"

	"teleport-update/find/want"
	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestEveryReasonToStayIsSaidInOneSentence(t *testing.T) {
	r := version.Release{Version: "15.1.2", Edition: version.OSS}
	s := state.Status{Failed: &state.Failed{Version: "15.1.2", Edition: version.OSS, Attempts: 2, NextAttempt: noon}}
	for why, sentence := range map[want.Why]string{
		want.Changes:   "",
		want.NoVersion: "the cluster names no version for this host",
		want.Reached:   "version 15.1.2 is active and wanted",
		want.NotDue:    "the cluster wants 15.1.2, but not now (agent_autoupdate is false)",
		want.Held: "the host is held since a rollback by hand at 2026-03-01T12:00:00Z, and does not switch to version 15.1.2; " +
			"`teleport-update update --now` releases it",
		want.JustLeft: "this host went to version 15.1.2 and back within an hour, and the cluster wants 15.1.2 again: its servers may disagree, " +
			"as while they are upgraded; the timer switches at 2026-03-01T12:00:00Z, `teleport-update update` switches now",
		want.BackingOff: "version 15.1.2 failed 2 times, next attempt at 2026-03-01T12:00:00Z; `teleport-update update --now` tries at once",
	} {
		if got := WhyNot(want.Decision{Release: r, Why: why, When: noon}, s); got != sentence {
			t.Errorf("%q: %s; want %s", why, got, sentence)
		}
	}
}
