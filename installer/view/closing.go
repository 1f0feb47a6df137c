package view

import (
	"slices"
	"strings"

	"teleport-update/installer/decision"
)

// Closing returns the last sentences of a person's command: the state of the host, and what comes next.
func (r Status) Closing() string {
	if r.VersionInstalled == nil {
		return "No version of Teleport is installed by the updater. `teleport-update enable` installs the one that the cluster wants."
	}
	say := []string{"Teleport " + *r.VersionInstalled + " is installed."}
	if r.Agent.PID != nil && r.Agent.Error == nil && !r.has(agentInDoubt...) {
		say = append(say, "The agent runs it.")
	}
	for n, c := range r.Conditions {
		makesState := n == 0 && r.State != decision.Idle
		switch {
		case c.Type == decision.NoSystemd:
			say = append(say, "The timer follows the cluster once systemd runs on this host.")
		case c.Type == decision.UpdatesDisabled:
			say = append(say, "Updates are off: `teleport-update enable` turns them on.")
		case c.Type == decision.HostPinned && makesState:
			say = append(say, "The host stays on it until `teleport-update unpin`.")
		case makesState, c.Severity == decision.Fault, c.Severity == decision.Blind, slices.Contains(alwaysSaid, c.Type):
			say = append(say, sentence(c.What+": "+c.Do))
		}
	}
	switch {
	case r.has(decision.TimerOff, decision.TimerStopped):
	case r.State == decision.Idle:
		say = append(say, "The timer follows the cluster, and looks every ten minutes.")
	}
	return strings.Join(say, " ")
}

func (r Status) has(types ...decision.Type) bool {
	return slices.ContainsFunc(r.Conditions, func(c decision.Condition) bool { return slices.Contains(types, c.Type) })
}

// agentInDoubt are conditions under which it is unknown whether the agent runs the version.
var agentInDoubt = []decision.Type{decision.RecordsBroken, decision.TransactionRunning, decision.TransactionOpen, decision.AgentUnstable,
	decision.AgentDown, decision.AgentOtherVersion, decision.AgentNotStarted, decision.AgentStarting}

// alwaysSaid are conditions that each command prints at its end, though they are no faults.
var alwaysSaid = []decision.Type{decision.AgentNotStarted, decision.AgentStarting, decision.TargetNone, decision.GroupUnknown,
	decision.TimerOff}

// sentence begins with a capital and ends with a stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// ClosingOfUninstall is Closing after the updater is gone.
const ClosingOfUninstall = "The updater is uninstalled."
