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
	say := []string{"Teleport " + *r.VersionInstalled + " is installed."}
	first := r.State
	for _, c := range r.Conditions {
		switch c.Type {
		case AgentNotStarted:
			start := "`systemctl enable --now teleport` starts it."
			if !configured {
				start = "write /etc/teleport.yaml, then `systemctl enable --now teleport`."
			}
			say = append(say, "The agent is not running: "+start)
		case AgentDown, AgentUnstable, AgentOtherVersion, TransactionOpen, RecordsBroken, GroupUnknown, RestartPending:
			say = append(say, sentence(c.Message))
		}
	}
	if (len(say) == 1 || r.State == StateIdle) && r.Agent.PID != nil {
		say = slices.Insert(say, 1, "The agent runs it.")
	}
	switch first {
	case StateDisabled:
		say = append(say, "Updates are off: `teleport-update enable` turns them on.")
	case StatePinned:
		say = append(say, "The host stays on it until `teleport-update unpin`.")
	case StateHeld, StateBackingOff, StateFailing:
		say = append(say, sentence(r.Explanation))
	case StateIdle:
		say = append(say, "The timer follows the cluster, and looks every ten minutes.")
	}
	return strings.Join(say, " ")
}

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
