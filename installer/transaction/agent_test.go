package transaction

import (
	"errors"
	"reflect"
	"syscall"
	"testing"
	"time"

	"teleport-update/health/settings"
	"teleport-update/installer/state"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// killedByAStop is what systemd says of an agent after a stop where it learned of the
// process from the PID file, as after each reload.
var killedByAStop = systemd.Unit{ActiveState: "failed", SubState: "failed", Restart: "on-failure", Result: "signal",
	Exit: systemd.ExitStatus{Code: systemd.Killed, Status: int32(syscall.SIGKILL)}}

// stoppedBadly is what systemd says of an agent that ended as it was asked to, after which a command of
// ExecStopPost= failed.
var stoppedBadly = systemd.Unit{ActiveState: "failed", SubState: "failed", Restart: "always", Result: "exit-code",
	Exit: systemd.ExitStatus{Code: systemd.Exited}}

func restartedBefore(u systemd.Unit) systemd.Unit { u.NRestarts = 1; return u }
func downAtOnce(u systemd.Unit) systemd.Unit      { u.AtOnce = true; return u }
func queued(u systemd.Unit) systemd.Unit          { u.JobPending = true; return u }

func resulting(u systemd.Unit, result string) systemd.Unit { u.Result = result; return u }
func restarting(u systemd.Unit, when string) systemd.Unit  { u.Restart = when; return u }
func endedBy(u systemd.Unit, code int32, status syscall.Signal) systemd.Unit {
	u.Exit = systemd.ExitStatus{Code: code, Status: int32(status)}
	return u
}

func TestStateOf(t *testing.T) {
	for _, tc := range []struct {
		name string
		unit systemd.Unit
		want state.AgentState
	}{
		{name: "running", unit: systemd.Unit{ActiveState: "active", SubState: "running"}, want: state.AgentRunning},
		{name: "reloading", unit: systemd.Unit{ActiveState: "reloading", SubState: "reload"}, want: state.AgentRunning},
		{name: "starting", unit: systemd.Unit{ActiveState: "activating", SubState: "start"}, want: state.AgentRunning},
		{name: "queued to start", unit: systemd.Unit{ActiveState: "inactive", SubState: "dead", JobPending: true}, want: state.AgentRunning},
		{name: "waiting to be restarted", unit: systemd.Unit{ActiveState: "activating", SubState: "auto-restart"}, want: state.AgentFailing},
		{name: "waiting to be restarted, as systemd 254 puts it", unit: systemd.Unit{ActiveState: "activating", SubState: "auto-restart-queued", JobPending: true}, want: state.AgentFailing},
		{name: "given up by systemd", unit: systemd.Unit{ActiveState: "failed", SubState: "failed"}, want: state.AgentFailing},
		{name: "stopped, and killed because a reload had started its process", unit: killedByAStop, want: state.AgentStopped},
		{name: "stopped, and killed because that took too long", unit: systemd.Unit{ActiveState: "failed", SubState: "failed", Restart: "always", Result: "timeout"}, want: state.AgentStopped},
		{name: "not started in time, and systemd does not start it again", unit: systemd.Unit{ActiveState: "failed", SubState: "failed", Restart: "on-abort", Result: "timeout"}, want: state.AgentFailing},
		{name: "killed by a stop, after it had been restarted", unit: restartedBefore(killedByAStop), want: state.AgentFailing},
		{name: "killed by a stop, after it had been restarted, and down at once", unit: downAtOnce(restartedBefore(killedByAStop)), want: state.AgentStopped},
		{name: "killed by a stop, about to be started", unit: queued(killedByAStop), want: state.AgentFailing},
		{name: "stopped, and a command after that failed", unit: stoppedBadly, want: state.AgentStopped},
		{name: "the same, of an agent that does not handle the request to stop", unit: endedBy(stoppedBadly, systemd.Killed, syscall.SIGTERM), want: state.AgentStopped},
		{name: "stopped, and a signal ended a command after that", unit: resulting(stoppedBadly, "signal"), want: state.AgentStopped},
		{name: "stopped, and a command after that failed, of one that had been restarted", unit: downAtOnce(restartedBefore(stoppedBadly)), want: state.AgentStopped},
		{name: "it ends by itself again and again, and a command after that fails", unit: restartedBefore(stoppedBadly), want: state.AgentFailing},
		{name: "a command after its end failed, and systemd does not start it again", unit: restarting(stoppedBadly, "on-abnormal"), want: state.AgentFailing},
		{name: "it failed by itself", unit: endedBy(stoppedBadly, systemd.Exited, 1), want: state.AgentFailing},
		{name: "it was never started", unit: endedBy(stoppedBadly, 0, 0), want: state.AgentFailing},
		{name: "stopped", unit: systemd.Unit{ActiveState: "inactive", SubState: "dead"}, want: state.AgentStopped},
		{name: "being stopped", unit: systemd.Unit{ActiveState: "deactivating", SubState: "stop-sigterm"}, want: state.AgentStopped},
		{name: "not there", unit: systemd.Unit{LoadState: "not-found", ActiveState: "inactive"}, want: state.AgentStopped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := StateOf(tc.unit); got != tc.want {
				t.Errorf("got %s; want %s", got, tc.want)
			}
		})
	}
}

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
			got := watchOf("", state.HealthSpec{Settings: settings.Settings{Window: state.Duration(tc.said)}}, Sight{Unit: systemd.Unit{RestartDelay: tc.restart}}).Window.Std()
			if got != tc.want {
				t.Errorf("got %v; want %v", got, tc.want)
			}
		})
	}
}

func TestEachCallOfAnUnreachableSystemdFails(t *testing.T) {
	why := errors.New("it does not answer")
	agent := reflect.ValueOf(unreachable{noAgent{why}})
	calls := reflect.TypeFor[Agent]()
	for n := range calls.NumMethod() {
		name, call := calls.Method(n).Name, agent.MethodByName(calls.Method(n).Name)
		if call.Type().NumOut() == 0 {
			continue // Close
		}
		var in []reflect.Value
		for i := range call.Type().NumIn() {
			in = append(in, reflect.Zero(call.Type().In(i)))
		}
		out := call.Call(in)
		if err, _ := out[len(out)-1].Interface().(error); err != why {
			t.Errorf("%s ends with %v", name, err)
		}
	}
}

// What systemd learned from a PID file while the parent lived it does not wait for, and must
// look at again; what is dead, or failed and may die, it would wait for in vain.
func TestWhenSystemdReadsItsFilesBeforeAStop(t *testing.T) {
	for _, tc := range []struct {
		name    string
		unit    systemd.Unit
		parent  int
		how     manner
		readsIt bool
	}{
		{"reloaded, its parent ended", systemd.Unit{Type: "forking", PIDFile: "/run/teleport.pid"}, 1, inOrder, true},
		{"of type simple with a PID file", systemd.Unit{Type: "simple", PIDFile: "/run/teleport.pid"}, 1, inOrder, true},
		{"it notifies systemd", systemd.Unit{Type: "notify"}, 1, inOrder, true},
		{"its parent sees its sessions to their end", systemd.Unit{Type: "forking", PIDFile: "/run/teleport.pid"}, 4711, inOrder, false},
		{"the process of the PID file is dead", systemd.Unit{Type: "forking", PIDFile: "/run/teleport.pid"}, 0, inOrder, false},
		{"the version failed, and may die at any moment", systemd.Unit{Type: "forking", PIDFile: "/run/teleport.pid"}, 1, atOnce, false},
		{"systemd started it", systemd.Unit{Type: "simple"}, 1, inOrder, false},
		{"systemd executed it", systemd.Unit{Type: "exec"}, 1, inOrder, false},
	} {
		s := Sight{Unit: tc.unit, Main: procfs.Process{Parent: tc.parent}}
		if got := s.mustReadAgain(tc.how); got != tc.readsIt {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}
