package installer

import (
	"testing"
	"time"

	"teleport-update/systemd"
)

func TestHealthWindow(t *testing.T) {
	for _, tc := range []struct {
		name    string
		said    time.Duration
		restart time.Duration // RestartSec of the agent's unit
		want    time.Duration
	}{
		{name: "nobody said anything", restart: 100 * time.Millisecond, want: 30 * time.Second},
		{name: "Teleport's own unit restarts after five seconds", restart: 5 * time.Second, want: 30 * time.Second},
		{name: "a unit that restarts slowly is watched for longer", restart: 10 * time.Second, want: 45 * time.Second},
		{name: "a unit that restarts very slowly", restart: time.Minute, want: 195 * time.Second},
		{name: "what a person says holds", said: time.Minute, restart: 5 * time.Second, want: time.Minute},
		{name: "what a person says holds, however short it is", said: time.Second, restart: time.Minute, want: time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := healthWindow(HealthSpec{Window: Duration(tc.said)}, systemd.Unit{RestartDelay: tc.restart})
			if got != tc.want {
				t.Errorf("got %v; want %v", got, tc.want)
			}
		})
	}
}

func TestStateOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		unit systemd.Unit
		want agentState
	}{
		{name: "running", unit: systemd.Unit{ActiveState: "active", SubState: "running"}, want: agentRunning},
		{name: "reloading", unit: systemd.Unit{ActiveState: "reloading", SubState: "reload"}, want: agentRunning},
		{name: "starting", unit: systemd.Unit{ActiveState: "activating", SubState: "start"}, want: agentRunning},
		{name: "queued to start", unit: systemd.Unit{ActiveState: "inactive", SubState: "dead", JobPending: true}, want: agentRunning},
		{name: "waiting to be restarted", unit: systemd.Unit{ActiveState: "activating", SubState: "auto-restart"}, want: agentFailing},
		{name: "waiting to be restarted, as systemd 254 puts it", unit: systemd.Unit{ActiveState: "activating", SubState: "auto-restart-queued", JobPending: true}, want: agentFailing},
		{name: "given up by systemd", unit: systemd.Unit{ActiveState: "failed", SubState: "failed"}, want: agentFailing},
		{name: "stopped", unit: systemd.Unit{ActiveState: "inactive", SubState: "dead"}, want: agentStopped},
		{name: "being stopped", unit: systemd.Unit{ActiveState: "deactivating", SubState: "stop-sigterm"}, want: agentStopped},
		{name: "not there", unit: systemd.Unit{LoadState: "not-found", ActiveState: "inactive"}, want: agentStopped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := stateOf(tc.unit); got != tc.want {
				t.Errorf("got %s; want %s", got, tc.want)
			}
		})
	}
}
