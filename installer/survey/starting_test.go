package survey

import (
	"testing"

	"teleport-update/installer/transaction"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// Only an agent that has a process, which goes on, serves.
func TestWhatAnAgentDoesThatCountsAsRunning(t *testing.T) {
	for name, tc := range map[string]struct {
		unit    systemd.Unit
		process procfs.Process
		want    Step
	}{
		"runs":                       {systemd.Unit{ActiveState: "active", SubState: "running", MainPID: 7}, procfs.Process{ID: procfs.ID{PID: 7}}, Serving},
		"reloads":                    {systemd.Unit{ActiveState: "reloading", SubState: "reload", MainPID: 7}, procfs.Process{ID: procfs.ID{PID: 7}}, Serving},
		"may not be looked at":       {systemd.Unit{ActiveState: "active", SubState: "running", MainPID: 7}, procfs.Process{}, Serving},
		"a hook after its start":     {systemd.Unit{ActiveState: "activating", SubState: "start-post", MainPID: 7}, procfs.Process{ID: procfs.ID{PID: 7}}, Serving},
		"serves by its PID file":     {systemd.Unit{ActiveState: "active", SubState: "exited"}, procfs.Process{ID: procfs.ID{PID: 8}}, Serving},
		"has ended":                  {systemd.Unit{ActiveState: "active", SubState: "exited"}, procfs.Process{}, Exited},
		"its job waits":              {systemd.Unit{ActiveState: "inactive", SubState: "dead", JobPending: true}, procfs.Process{}, Queued},
		"a command before its start": {systemd.Unit{ActiveState: "activating", SubState: "start-pre"}, procfs.Process{}, Starting},
		"its stop waits":             {systemd.Unit{ActiveState: "deactivating", SubState: "stop-sigterm", JobPending: true, MainPID: 7}, procfs.Process{ID: procfs.ID{PID: 7}}, Stopping},
		"is frozen":                  {systemd.Unit{ActiveState: "active", SubState: "running", MainPID: 7, Frozen: true}, procfs.Process{ID: procfs.ID{PID: 7}}, Frozen},
		"was stopped by a signal":    {systemd.Unit{ActiveState: "active", SubState: "running", MainPID: 7}, procfs.Process{ID: procfs.ID{PID: 7}, Halted: true}, Halted},
		"is stopped":                 {systemd.Unit{ActiveState: "inactive", SubState: "dead"}, procfs.Process{}, Serving},
		"fails":                      {systemd.Unit{ActiveState: "activating", SubState: "auto-restart"}, procfs.Process{}, Serving},
	} {
		a := Agent{Sight: transaction.Sight{Unit: tc.unit, State: transaction.StateOf(tc.unit)}, Process: tc.process}
		if got := a.Step(); got != tc.want {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
	}
}
