package decision

import (
	"fmt"
	"slices"
	"strings"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
)

const (
	TargetNone      Type = "target_none"
	GroupUnknown    Type = "group_unknown"
	SettingsUnknown Type = "settings_unknown"
	AgentNotEnabled Type = "agent_not_enabled"
	ChangeRefused   Type = "change_refused"
	CompanionsOld   Type = "companions_old"
	ClusterServers  Type = "cluster_servers"
	PackageLeft     Type = "package_left"
	VersionsLeft    Type = "versions_left"
	Unsigned        Type = "unsigned"
	RuleGone        Type = "rule_gone"
)

// notes are worth a line, and make no state.
func notes() []Check {
	return []Check{
		{TargetNone, Note, Idle, "target", "the cluster names no version: the host stays on the one it has", follows, targetNone},
		{GroupUnknown, Note, Idle, "group", "the cluster has no group of the name that this host gives; the host is treated " +
			"as ungrouped", enabled, groupUnknown},
		{SettingsUnknown, Note, Idle, "updates.yaml", "updates.yaml has settings that this program does not know: a newer one " +
			"wrote them, or they are misspelt", readable, settingsUnknown},
		{AgentNotEnabled, Note, Idle, "agent at boot", "the agent runs and is not enabled: the next boot does not start it", settled | active,
			agentNotEnabled},
		{ChangeRefused, Note, Idle, "next change", "a change of the version, whichever it is, would be refused as the host is now, by what " +
			"systemd does with the agent's unit for example", settled | active | deep, changeRefused},
		{CompanionsOld, Note, Idle, "other services", "services beside the agent, as tbot, execute a program of another version " +
			"than the active one, or one from before the first enable, until somebody restarts them", settled | active | deep, companionsOld},
		{ClusterServers, Note, Idle, "servers of the cluster", "the host runs servers of the cluster itself, as an auth server, whose data are " +
			"in no backup of the updater", settled | active | deep, clusterServers},
		{PackageLeft, Note, Idle, "package", "the package that brought the agent is not removed yet", 0, packageLeft},
		{VersionsLeft, Note, Idle, "old versions", "versions that nothing needs cannot be removed and take space", settled | active,
			versionsLeft},
		{Unsigned, Note, Idle, "policy", "the active version would be refused if the policy required signatures", active, unsigned},
		{RuleGone, Note, Idle, "policy", "the policy of the host's owner had a rule that is gone", 0, ruleGone},
	}
}

// NamesNoVersion describes an answer of find without a version.
const NamesNoVersion = "the cluster names no version for this host"

func targetNone(h *facts, f *finder) error {
	if h.aim() == TargetNone {
		f.found(nil, NamesNoVersion, "")
	}
	return nil
}

func groupUnknown(h *facts, f *finder) error {
	if h.NoGroup {
		f.found(nil, UnknownGroup(h.Group)+h.alsoSwitches(), "")
	}
	return nil
}

// UnknownGroup says what follows if find does not know a group.
func UnknownGroup(name string) string {
	return fmt.Sprintf("the cluster has no group %q; this host is treated as ungrouped: `teleport-update enable --group NAME` "+
		"corrects the name, or somebody adds the group on the server", name)
}

func settingsUnknown(h *facts, f *finder) error {
	if names := h.c.UnknownSettings(); len(names) > 0 {
		what, unknown := h.Paths().Config()+" has settings that this program does not know", strings.Join(names, ", ")
		f.found(nil, fmt.Sprintf("%s: %s; a newer program wrote them, or they are misspelt", what, unknown), "")
	}
	return nil
}

// changeRefused reports before a change that the change would be refused. A fault says more, and comes first.
func changeRefused(h *facts, f *finder) error {
	if h.Refuses == nil || h.blind != nil || slices.ContainsFunc(f.all, func(c Condition) bool { return c.Severity != Note }) {
		return nil
	}
	why, err := h.Refuses(h)
	if why != nil {
		f.foundError("a change of the version would be refused as the host is now: ", why)
	}
	return err
}

func agentNotEnabled(h *facts, f *finder) error {
	if h.blind != nil || !h.agent.Serves() {
		return nil
	}
	switch h.agent.UnitFileState {
	case "disabled", "enabled-runtime", "linked", "linked-runtime":
		f.found(nil, "the agent runs and is not enabled: the next boot does not start it. `systemctl enable teleport`", "")
	case "static", "indirect", "generated", "transient": // cannot be enabled by itself
		if len(h.agent.Ties.WantedBy) == 0 {
			f.found(nil, fmt.Sprintf("the agent runs, and no unit starts it at the next boot: its unit is %s. `systemctl add-wants "+
				"multi-user.target %s`", h.agent.UnitFileState, h.Paths().AgentUnit()), "")
		}
	}
	return nil
}

// companionsOld reports services that the updater never restarts: their users may need what they hold.
func companionsOld(h *facts, f *finder) error {
	companions, err := h.Companions()
	agents, _ := h.OtherAgents() // another check says not to restart them, or why it cannot tell
	var old, units []string
	for _, c := range companions {
		if slices.ContainsFunc(agents, func(o survey.OtherAgent) bool { return o.Unit == c.Unit }) {
			continue
		}
		if a := h.c.Active(); c.Runs.Version == a.Version && (c.Runs.Edition == a.Edition || c.Runs.Edition == "") {
			continue
		}
		runs := "version " + c.Runs.Short()
		if c.Link != "" {
			runs = "the program that was at " + c.Link + " before the updater's link"
		}
		old = append(old, fmt.Sprintf("%s runs %s (PID %d)", c.Unit, runs, c.PID))
		if !slices.Contains(units, c.Unit) {
			units = append(units, c.Unit)
		}
	}
	if len(old) > 0 {
		f.found(nil, fmt.Sprintf("version %s is active, and %s: ", h.c.Active().Short(), strings.Join(old, ", ")),
			h.adviseRestartOf(units, "`systemctl restart %s`"))
	}
	return err
}

// clusterServers repeats a check of the first enable: a host may become a server later.
func clusterServers(h *facts, f *finder) error {
	servers, err := h.Servers()
	if err == nil && servers != "" {
		f.found(nil, ServersUnsaved+" ("+servers+"): ", "back them up by other means before each change of version")
	}
	return nil // a file that cannot be read also keeps the agent from starting, and other checks report it
}

// ServersUnsaved describes a host that runs servers of the cluster itself.
const ServersUnsaved = "this host runs servers of the cluster itself, whose data are in no backup of the updater"

func packageLeft(h *facts, f *finder) error {
	if left := h.c.Status.PackagesLeft; len(left) > 0 {
		f.found(&left[0].Since, "the package that brought the agent is not removed yet: "+DescribeLeft(left), "")
	}
	return nil
}

// DescribeLeft names packages that are still to be removed.
func DescribeLeft(left []state.PackageLeft) string {
	var all []string
	for _, l := range left {
		all = append(all, l.Package.String()+": "+l.Error)
	}
	return strings.Join(all, "; ")
}

func versionsLeft(h *facts, f *finder) error {
	if h.VersionsLeft != "" {
		f.found(nil, h.VersionsLeft, "")
	}
	return nil
}

func unsigned(h *facts, f *finder) error {
	if why := h.Policy.Unsigned; why != "" {
		f.found(nil, "if signatures were required, the active version would be refused: "+why, "")
	}
	return nil
}

func ruleGone(h *facts, f *finder) error {
	if gone := h.Policy.Gone; len(gone) > 0 {
		f.found(nil, fmt.Sprintf("policy.yaml had rules that are gone: %s; ", strings.Join(gone, ", ")), "put them back, or run "+
			"`teleport-update policy --forget` if they are no longer wanted")
	}
	return nil
}
