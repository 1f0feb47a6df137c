package decision

import (
	"fmt"
	"strings"
	"time"

	"teleport-update/internal/console"
)

// helps says what to do about a condition, and what its sentence leaves out.
var helps = map[Type]string{
	RecordsBroken: "`status` names the file: repair it, or install the newer updater. If it names the tables of the database, do not " +
		"start the agent: `teleport-update pin VERSION` brings back the version that changed them. If a journal stays unreadable, move " +
		"it away, run `teleport-update update`, and look at `status`.",
	TransactionRunning: "Wait a minute.",
	TransactionOpen:    "`teleport-update update`, or the next run of the timer, closes it.",
	PolicyBroken:       "Repair the file; if it is gone for good, `teleport-update policy --forget`.",
	AgentUnstable:      "`teleport-update rollback`, or what `status` says; `journalctl -u teleport` says why it crashes.",
	AgentDown: "`teleport-update update` starts an agent that failed. An agent that somebody stopped is started by the command that " +
		"`status` names. If that fails, `journalctl -u teleport` says why.",
	VersionBroken: "`teleport-update update` fetches the version again; `status` names mode and mount.",
	LinksBroken:   "`teleport-update update`; first move a folder away that is in its place.",
	UnitOverruled: "Write the settings of the file that `status` names into a drop-in, and remove the file; then `systemctl " +
		"daemon-reload`. Bring back what the unit needs, or run the command that `status` shows.",
	AgentOtherVersion: "What `status` says: restart the agent only if the linked version fits its database.",
	BelowMinimum:      "Have the cluster name another version, or change `/etc/teleport-update/policy.yaml`.",
	UnitsLate:         "`teleport-update uninstall`, then `teleport-update enable` with its options; or the command that `status` names.",
	RecoveryBroken:    "Remove what `status` names: until then no version is changed.",
	OtherUpdater:      "Remove the other updater, or `teleport-update enable --replace-updater`.",
	UpdaterBroken:     "`teleport-update update` puts back its own files; remove the file that takes precedence.",
	TimerStopped:      "The command that `status` names.",
	ClockWrong: "Set the clock if it is wrong, then `teleport-update update`. If the clock is right, it was ahead when the time was " +
		"recorded: the same command records the time again.",
	RunNotMade:    "`systemctl status teleport-update.service` shows the cause. Remove it, and wait for the next run of the timer.",
	NoRuns:        "`systemctl list-jobs`; the command that `status` names.",
	RunsFail:      "Remove the cause, then `teleport-update update`.",
	EnableFailed:  "Remove the cause, then the command that `status` names.",
	TargetRefused: "Have the cluster want a newer version, or `teleport-update rollback --force`, with today's database.",
	ProxyConflict: "`teleport-update enable --proxy` with the new address, or `teleport-update enable --allow-proxy-conflict` for a " +
		"find server of your own.",
	RestartPending:  "The command that `status` names, or what keeps it from helping.",
	TemplateExposed: "Give the folder of the template to root alone.",
	ProgramsClosed:  "`namei -l` on the file that `status` names; open what is closed.",
	OtherAgents: "`systemctl disable --now` with the unit that `status` names, or have it start a program in another folder before " +
		"its next restart.",
	NotLookedAt:     "Remove the reason, then run the command again.",
	UpdatesDisabled: "`teleport-update enable`.",
	HostPinned:      "`teleport-update unpin`.",
	HostHeld:        "`teleport-update update --now`, or wait until the cluster wants another version.",
	VersionBacksOff: "Read the error in `status`. `teleport-update update --now` tries at once.",
	RunFailed:       "Remove the cause, then `teleport-update update`.",
	FindUnreachable: "Nothing, if the proxy comes back. Else `teleport-update enable --proxy` with its address.",
	AgentNotStarted: "Write `/etc/teleport.yaml`, then the command that `status` names.",
	AgentStarting:   "Nothing, if it ends soon; `systemctl list-jobs` shows what it waits for.",
	UpdateWaits:     "Wait for a run of the timer, or `teleport-update update --now`.",
	TargetUnknown:   "The next run of the timer asks, `teleport-update update` asks at once.",
	Unproven:        "Nothing, if the agent runs, else start it. The next run of the timer proves the version.",
	NoSystemd:       "Nothing, agent and timer start once systemd runs.",
	TimerOff:        "Nothing, if your own tools run `teleport-update update`.",
	TargetNone:      "Set a version in the cluster.",
	GroupUnknown:    "`teleport-update enable --group GROUP`; `teleport-find status` lists the groups.",
	SettingsUnknown: "Correct the name of the setting.",
	AgentNotEnabled: "`systemctl enable teleport`, or the command that `status` names.",
	ChangeRefused:   "Remove what the message names before the next change is due.",
	CompanionsOld:   "The command that `status` names, when the users of the services can do without them.",
	ClusterServers: "Back up the data of the cluster's servers before each change. If the host runs none, write `auth_service: " +
		"{enabled: no}`.",
	PackageLeft:  "Nothing, it is tried once a day.",
	VersionsLeft: "End the process, or free the file, that `status` names; the next run removes the version.",
	Unsigned:     "Nothing, the next version brings one, if the mirror has signatures.",
	RuleGone:     "Put the rule back; if it is no longer wanted, `teleport-update policy --forget`.",
}

// Explain describes a condition of Checks: its meaning, what helps, and what the conditions of a host say about it.
func Explain(about Type, host []Condition) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s.\n", about, Checks[gravity(about)].Means)
	fmt.Fprintf(&b, "what helps: %s\n", helps[about])
	found := false
	for _, c := range host {
		if c.Type != about {
			continue
		}
		since := ""
		if c.Since != nil {
			since = ", since " + c.Since.Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "on this host%s: %s\n", since, console.Line(c.Message))
		found = true
	}
	if !found {
		fmt.Fprintln(&b, "this host does not have the condition")
	}
	return b.String()
}
