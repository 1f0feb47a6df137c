package systemd

import (
	"testing"

	sdbus "github.com/coreos/go-systemd/v22/dbus"
)

// As systemd 252 orders jobs (systemd.unit(5), Before=).
func TestWhichJobsSystemdFinishesFirst(t *testing.T) {
	agent := ordering{after: []string{"network.service"}, before: []string{"sidecar.service"}}
	for _, tc := range []struct {
		name, unit, job string
		ofStop, ofStart bool // whether it comes before a stop, and a restart, and before a start, and a reload
	}{
		{"a unit that the agent comes after starts", "network.service", "start", false, true},
		{"it stops", "network.service", "stop", false, true},
		{"it is asked for nothing", "network.service", "nop", false, false},
		{"a unit that comes after the agent stops", "sidecar.service", "stop", true, true},
		{"it is restarted", "sidecar.service", "restart", true, true},
		{"it starts", "sidecar.service", "start", false, false},
		{"it is asked for nothing", "sidecar.service", "nop", false, false},
		{"a unit that is in no order with the agent", "other.service", "stop", false, false},
	} {
		job := sdbus.JobStatus{Unit: tc.unit, JobType: tc.job}
		for verb, want := range map[Verb]bool{VerbStop: tc.ofStop, VerbRestart: tc.ofStop, VerbStart: tc.ofStart, VerbReload: tc.ofStart} {
			if got := agent.comesFirst(job, verb); got != want {
				t.Errorf("%s: its %s comes before a %s of the agent: %v; want %v", tc.name, tc.job, verb, got, want)
			}
		}
	}
}
