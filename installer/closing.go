package installer

import (
	"slices"
	"strings"
)

// Closing says, in a few sentences, what is now true of the host and what comes next:
// with it a command ends that a person gave. configured tells whether the agent has a
// configuration.
func (r Report) Closing(configured bool) string {
	if r.VersionInstalled == nil {
		return "No version of Teleport is installed by the updater. `teleport-update enable` installs the one that the cluster wants."
	}
	var first ConditionType // none: the host is well
	if len(r.Conditions) > 0 && r.State != StateIdle {
		first = r.Conditions[0].Type
	}
	say := []string{"Teleport " + *r.VersionInstalled + " is installed."}
	if r.Agent.PID != nil && !slices.ContainsFunc(r.Conditions, func(c Condition) bool { return slices.Contains(agentInDoubt, c.Type) }) {
		say = append(say, "The agent runs it.")
	}
	asked := true // the timer asks the cluster
	for _, c := range r.Conditions {
		switch {
		case c.Type == AgentNotStarted:
			start := "`systemctl enable --now teleport` starts it."
			if !configured {
				start = "write /etc/teleport.yaml, then `systemctl enable --now teleport`."
			}
			say = append(say, "The agent is not running: "+start)
		case c.Type == UpdatesDisabled && c.Type == first:
			say = append(say, "Updates are off: `teleport-update enable` turns them on.")
		case c.Type == Pinned && c.Type == first:
			say = append(say, "The host stays on it until `teleport-update unpin`.")
		case c.Type == first, slices.Contains(alwaysSaid, c.Type):
			say = append(say, sentence(c.Message))
		}
		asked = asked && c.Type != TimerOff
	}
	switch {
	case !asked:
	case r.State == StateIdle && r.Agent.ActiveState == nil && r.Agent.Error == nil:
		say = append(say, "The timer follows the cluster once systemd runs on this host.")
	case r.State == StateIdle:
		say = append(say, "The timer follows the cluster, and looks every ten minutes.")
	case first == TargetUnknown:
		say = append(say, "The next run of the timer asks, `teleport-update update` asks at once.")
	}
	return strings.Join(say, " ")
}

// agentInDoubt are conditions with which nobody can say that the agent runs the
// version.
var agentInDoubt = []ConditionType{RecordsBroken, TransactionRunning, TransactionOpen, AgentUnstable, AgentDown, AgentOtherVersion, AgentNotStarted}

// alwaysSaid are conditions that a person hears of after each command, whatever is graver.
var alwaysSaid = []ConditionType{RecordsBroken, TransactionOpen, AgentUnstable, AgentDown, AgentOtherVersion, TargetNone, GroupUnknown, TimerOff, RestartPending}

// sentence begins with a capital and ends with a stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// ClosingOfUninstall is Closing after the updater is gone.
func ClosingOfUninstall(keptAgent bool) string {
	if keptAgent {
		return "The updater is uninstalled. The agent stays as plain files, and nothing updates it any more."
	}
	return "The updater is uninstalled. This host is as it was before the first `teleport-update enable`."
}

// Alarming reports whether somebody should look.
func (s State) Alarming() bool {
	return s == StateFailing || s == StateUnstable || s == StateNeedsAttention
}
