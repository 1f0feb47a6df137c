package decision

import (
	"fmt"
	"strings"
	"time"

	"teleport-update/internal/console"
)

// helps says what to do about a condition, and what its sentence leaves out.
var helps = map[Type]string{
	RecordsBroken: "Repair the file, or install the newer updater. If the tables of the database do not fit, do not start the agent: " +
		"`teleport-update pin VERSION` brings back the version that changed them. If a journal stays unreadable, move it away, and run " +
		"`teleport-update update`.",
	TransactionRunning: "Wait a minute.",
	TransactionOpen:    "`teleport-update update`, or the next run of the timer, closes it.",
	PolicyBroken:       "Repair the file; if it is gone for good, `teleport-update policy --forget`.",
	AgentUnstable:      "`teleport-update rollback`, unless the condition advises against it; `journalctl -u teleport` says why it crashes.",
	AgentDown: "`teleport-update update` starts an agent that failed. Start an agent that somebody stopped, unless the " +
		"condition advises against it. If that fails, `journalctl -u teleport` says why.",
	VersionBroken:     "`teleport-update update` fetches the version again. A program that may not be executed needs another mode or mount.",
	LinksBroken:       "`teleport-update update`; first move a folder away that is in its place.",
	UnitOverruled:     "Put right what the condition names, then `systemctl daemon-reload`.",
	AgentOtherVersion: "Restart the agent, but only if the linked version fits its database.",
	BelowMinimum:      "Have the cluster name another version, or change `/etc/teleport-update/policy.yaml`.",
	UnitsLate: "`teleport-update uninstall`, then `teleport-update enable` with its options. The content of a drop-in goes " +
		"into a folder on the file system of /.",
	RecoveryBroken: "Remove what keeps the recovery from its work: until then no version is changed.",
	OtherUpdater:   "Remove the other updater, or `teleport-update enable --replace-updater`.",
	UpdaterBroken:  "`teleport-update update` puts back its own files; remove the file that takes precedence.",
	TimerStopped:   "Start the timer, once nothing keeps it from starting.",
	ClockWrong: "Set the clock if it is wrong, then `teleport-update update`. If the clock is right, it was ahead when the time was " +
		"recorded: the same command records the time again.",
	RunNotMade:    "`systemctl status teleport-update.service` shows the cause. Remove it, and wait for the next run of the timer.",
	NoRuns:        "`systemctl list-jobs` shows what a run waits for. End the run that hangs, or restart the timer.",
	RunsFail:      "Remove the cause, then `teleport-update update`.",
	EnableFailed:  "Remove the cause, then run `enable` again as before.",
	TargetRefused: "Have the cluster want a newer version, or `teleport-update rollback --force`, with today's database.",
	ProxyConflict: "`teleport-update enable --proxy` with the new address, or `teleport-update enable --allow-proxy-conflict` for a " +
		"find server of your own.",
	RestartPending:  "Restart the agent, unless the condition advises against it.",
	TemplateExposed: "Give the folder of the template to root alone.",
	ProgramsClosed:  "`namei -l` on the program shows which folder is closed; open that folder.",
	OtherAgents:     "Do not restart the service: have it start a program of its own in another folder, or disable it if nobody needs it.",
	NotLookedAt:     "Remove the reason, then run the command again.",
	UpdatesDisabled: "`teleport-update enable`.",
	HostPinned:      "`teleport-update unpin`.",
	HostHeld:        "`teleport-update update --now`, or wait until the cluster wants another version.",
	VersionBacksOff: "Remove the cause, then `teleport-update update --now` tries at once.",
	RunFailed:       "Remove the cause, then `teleport-update update`.",
	FindUnreachable: "Nothing, if the proxy comes back. Else `teleport-update enable --proxy` with its address.",
	AgentNotStarted: "Write the agent's configuration, then enable and start the agent, unless the condition advises against it.",
	AgentStarting:   "Nothing, if it ends soon; `systemctl list-jobs` shows what it waits for.",
	UpdateWaits:     "Wait for a run of the timer, or `teleport-update update --now`.",
	TargetUnknown:   "The next run of the timer asks, `teleport-update update` asks at once.",
	Unproven:        "Nothing, if the agent runs, else start it. The next run of the timer proves the version.",
	NoSystemd:       "Nothing, agent and timer start once systemd runs.",
	TimerOff:        "Nothing, if your own tools run `teleport-update update`.",
	TargetNone:      "Set a version in the cluster.",
	GroupUnknown:    "`teleport-update enable --group GROUP`; `teleport-find status` lists the groups.",
	SettingsUnknown: "Correct the name of the setting.",
	AgentNotEnabled: "`systemctl enable teleport`, or `systemctl add-wants` for a unit that cannot be enabled.",
	ChangeRefused:   "Remove what the message names before the next change is due.",
	CompanionsOld:   "Restart the services when their users can do without them, unless the condition advises against it.",
	ClusterServers: "Back up the data of the cluster's servers before each change. If the host runs none, write `auth_service: " +
		"{enabled: no}`.",
	PackageLeft:  "Nothing, it is tried once a day.",
	VersionsLeft: "End the process, or free the file, that keeps a version; the next run removes the version.",
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
