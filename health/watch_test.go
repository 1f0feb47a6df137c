package health

import (
	"testing"
	"time"

	"teleport-update/systemd"
)

func TestTheWindowIsLongEnoughToSeeAVersionDieAgainAndAgain(t *testing.T) {
	for delay, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 15300 * time.Millisecond,
		5 * time.Second:        30 * time.Second,
		time.Minute:            195 * time.Second,
		systemd.Forever:        45*time.Minute + 15*time.Second,
	} {
		if got := MinWindow(systemd.Unit{RestartDelay: delay}); got != want {
			t.Errorf("RestartSec=%v: %v; want %v", delay, got, want)
		}
		// Wherever in the window it dies, systemd has restarted it by the end.
		if got := MinWindow(systemd.Unit{RestartDelay: delay}); delay < systemd.JobCap && got < 2*delay {
			t.Errorf("RestartSec=%v: %v is shorter than two rounds", delay, got)
		}
	}
}

// A start that waits for the end of the process before says nothing about what was to be started; one that does not come to
// an end by itself does.
func TestAJobThatAwaitsTheEndOfTheProcessBefore(t *testing.T) {
	for _, w := range []struct {
		result, state string
		want          bool
	}{
		{systemd.ResultUnfinished, "deactivating", true}, {systemd.ResultUnfinished, "activating", false}, {"failed", "deactivating", false},
	} {
		if got := awaitsStop(&systemd.JobError{Verb: systemd.VerbStart, Result: w.result}, systemd.Unit{ActiveState: w.state}); got != w.want {
			t.Errorf("%s, %s: %v", w.result, w.state, got)
		}
	}
}
