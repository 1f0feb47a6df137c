package view

import (
	"testing"

	"teleport-update/installer/decision"
)

func TestACommandEndsWithWhatIsTrueAndWhatComesNext(t *testing.T) {
	const installed, runs = "Teleport 17.2.1 is installed. ", "Teleport 17.2.1 is installed. The agent runs it. "
	one := func(t decision.Type, s decision.Severity, message string) []decision.Condition {
		return []decision.Condition{{Type: t, Severity: s, What: message, Do: "wait"}}
	}
	for name, tc := range map[string]struct {
		conditions []decision.Condition
		down       bool // nothing is known of a process of the agent's
		want       string
	}{
		"well":                    {nil, false, runs + "The timer follows the cluster, and looks every ten minutes."},
		"not started":             {one(decision.AgentNotStarted, decision.Busy, "write its configuration"), true, installed + "Write its configuration: wait."},
		"is stopped":              {one(decision.AgentStarting, decision.Busy, "the agent is being stopped"), false, installed + "The agent is being stopped: wait."},
		"restart pending":         {one(decision.RestartPending, decision.Fault, "the agent differs"), false, runs + "The agent differs: wait."},
		"pinned":                  {one(decision.HostPinned, decision.Setting, "x"), false, runs + "The host stays on it until `teleport-update unpin`."},
		"held":                    {one(decision.HostHeld, decision.Setting, "the host is held"), false, runs + "The host is held: wait."},
		"disabled":                {one(decision.UpdatesDisabled, decision.Setting, "x"), false, runs + "Updates are off: `teleport-update enable` turns them on."},
		"down":                    {one(decision.AgentDown, decision.Fault, "the agent does not run"), true, installed + "The agent does not run: wait."},
		"waiting":                 {one(decision.UpdateWaits, decision.Busy, "the cluster wants 17.3.0"), false, runs + "The cluster wants 17.3.0: wait."},
		"unknown target":          {one(decision.TargetUnknown, decision.Busy, "it is not known"), false, runs + "It is not known: wait."},
		"not to be looked at":     {one(decision.NotLookedAt, decision.Blind, "the agent could not be looked at"), true, installed + "The agent could not be looked at: wait."},
		"timer masked":            {one(decision.TimerOff, decision.Setting, "the timer is masked"), false, runs + "The timer is masked: wait."},
		"no systemd":              {one(decision.NoSystemd, decision.Busy, "x"), true, installed + "The timer follows the cluster once systemd runs on this host."},
		"a fault below a fault":   {append(one(decision.RunsFail, decision.Fault, "runs fail"), one(decision.TargetRefused, decision.Fault, "refused")...), false, runs + "Runs fail: wait. Refused: wait."},
		"a setting below a fault": {append(one(decision.RunsFail, decision.Fault, "runs fail"), one(decision.HostPinned, decision.Setting, "x")...), false, runs + "Runs fail: wait."},
		"two settings":            {append(one(decision.HostHeld, decision.Setting, "the host is held"), one(decision.TimerOff, decision.Setting, "the timer is masked")...), false, runs + "The host is held: wait. The timer is masked: wait."},
	} {
		v, pid := "17.2.1", 7
		r := Status{VersionInstalled: &v, State: decision.SumUp(tc.conditions).State, Conditions: tc.conditions}
		if !tc.down {
			r.Agent.PID = &pid
		}
		if got := r.Closing(); got != tc.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, tc.want)
		}
	}
	none := "No version of Teleport is installed by the updater. `teleport-update enable` installs the one that the cluster wants."
	if got := (Status{State: decision.Disabled}).Closing(); got != none {
		t.Errorf("got  %s\nwant %s", got, none)
	}
}
