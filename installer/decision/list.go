package decision

// Type says what a condition is about.
type Type string

const (
	RecordsBroken      Type = "records_broken"
	TransactionRunning Type = "transaction_running"
	TransactionOpen    Type = "transaction_open"
	PolicyBroken       Type = "policy_broken"
	AgentUnstable      Type = "agent_unstable"
	AgentDown          Type = "agent_down"
	VersionBroken      Type = "version_broken"
	LinksBroken        Type = "links_broken"
	UnitOverruled      Type = "unit_overruled"
	AgentOtherVersion  Type = "agent_other_version"
	BelowMinimum       Type = "below_minimum"
	UnitsLate          Type = "units_late"
	RecoveryBroken     Type = "recovery_broken"
	UpdaterBroken      Type = "updater_broken"
	TimerStopped       Type = "timer_stopped"
	RunNotMade         Type = "run_not_made"
	NoRuns             Type = "no_runs"
	RunsFail           Type = "runs_fail"
	EnableFailed       Type = "enable_failed"
	TargetRefused      Type = "target_refused"
	RestartPending     Type = "restart_pending"
	TemplateExposed    Type = "template_exposed"
	ProgramsClosed     Type = "programs_closed"
	NotLookedAt        Type = "unknown"
	UpdatesDisabled    Type = "updates_disabled"
	HostPinned         Type = "pinned"
	HostHeld           Type = "held"
	VersionBacksOff    Type = "backing_off"
	RunFailed          Type = "run_failed"
	FindUnreachable    Type = "find_unreachable"
	AgentNotStarted    Type = "agent_not_started"
	UpdateWaits        Type = "update_waits"
	TargetUnknown      Type = "target_unknown"
	Unproven           Type = "unproven"
	NoSystemd          Type = "no_systemd"
	TimerOff           Type = "timer_off"
	TargetNone         Type = "target_none"
	GroupUnknown       Type = "group_unknown"
	SettingsUnknown    Type = "settings_unknown"
	AgentNotEnabled    Type = "agent_not_enabled"
	CompanionsOld      Type = "companions_old"
	PackageLeft        Type = "package_left"
	VersionsLeft       Type = "versions_left"
	Unsigned           Type = "unsigned"
)

// Checks are all there are, the gravest first: the state of the host is that of the first
// condition that makes one. Faults come first, and what a person has set hides none.
var Checks = list()

func list() []Check {
	return []Check{
		{RecordsBroken, Fault, NeedsAttention, "records", "the updater's records cannot be read, or do not fit the links", 0, recordsBroken},
		{TransactionRunning, Busy, Updating, "transaction", "an updater is at work", 0, transactionRunning},
		{TransactionOpen, Fault, NeedsAttention, "transaction", "a transaction was cut off; the next run closes it", 0, transactionOpen},
		{PolicyBroken, Fault, NeedsAttention, "policy", "the policy of the host's owner is missing although it was there, or " +
			"cannot be read: the version is not changed", readable, policyBroken},
		{AgentUnstable, Fault, Unstable, "agent", "the agent crashes again and again after its version was proven", settled | active,
			agentUnstable},
		{AgentDown, Fault, NeedsAttention, "agent", "the agent should run and does not", settled | active, agentDown},
		{VersionBroken, Fault, NeedsAttention, "active version", "the active version is not whole on disk, or its program cannot be executed",
			settled | active, versionBroken},
		{LinksBroken, Fault, NeedsAttention, "links and units", "a link or the agent's unit file is missing, or is not the active version's",
			settled | active, linksBroken},
		{UnitOverruled, Fault, NeedsAttention, "agent's unit", "systemd has loaded another unit for the agent, or an older text " +
			"of it, or could not start the agent again by the unit that it has", settled | active, unitOverruled},
		{AgentOtherVersion, Fault, NeedsAttention, "agent", "the agent runs another version than the linked one", settled | active,
			agentOtherVersion},
		{BelowMinimum, Fault, NeedsAttention, "policy", "the active version is below the policy's minimum, withdrawn, or not the " +
			"tarball that the policy lists; it stays until the cluster names one that is allowed", active, belowMinimum},
		{UnitsLate, Fault, NeedsAttention, "units at boot", "the folder of the agent's unit is not mounted yet when systemd reads " +
			"its units at boot: there will be no agent", settled | active, unitsLate},
		{RecoveryBroken, Fault, NeedsAttention, "recovery", "the recovery at boot, which repairs what a power cut left, cannot do its work",
			settled | active, recoveryBroken},
		{UpdaterBroken, Fault, NeedsAttention, "updater's units", "the updater's own units are not as they should be",
			settled | enabled | active, updaterBroken},
		{TimerStopped, Fault, NeedsAttention, "timer", "the updater's timer is stopped, failed or missing: no run starts by itself",
			settled | enabled | active, timerStopped},
		{RunNotMade, Fault, Failing, "runs", "the last run of the timer could not be started, or was ended from outside", enabled, runNotMade},
		{NoRuns, Fault, Failing, "runs", "no run of the timer has begun, although one was due", settled | enabled, noRuns},
		{RunsFail, Fault, Failing, "runs", "the last runs of the timer failed", enabled, runsFail},
		{EnableFailed, Fault, NeedsAttention, "enable", "the first `enable` failed, and nothing tries it again by itself", settled | readable,
			enableFailed},
		{TargetRefused, Fault, NeedsAttention, "target", "the update to the version that the cluster wants is refused: it would " +
			"put the host at risk", follows, targetRefused},
		{RestartPending, Fault, NeedsAttention, "restart pending", "the agent runs with other arguments, variables or as another " +
			"user than its unit says: a reload keeps those that it was started with", settled | active, restartPending},
		{TemplateExposed, Fault, NeedsAttention, "template", "a template leads into a folder in which users other than root can " +
			"exchange a release", readable, templateExposed},
		{ProgramsClosed, Fault, NeedsAttention, "other users", "users other than root cannot run the linked programs", settled | active | deep,
			programsClosed},
		{NotLookedAt, Blind, Unknown, "", "something could not be looked at, and nobody knows how it is", 0, nil},
		{UpdatesDisabled, Setting, Disabled, "updates", "updates are off: somebody disabled them, or nobody has enabled them", readable,
			updatesDisabled},
		{HostPinned, Setting, Pinned, "pinned", "a person pinned the host to a version", enabled, hostPinned},
		{HostHeld, Setting, Held, "held", "a rollback by hand holds the host: it does not switch to the version that the cluster wants", follows,
			hostHeld},
		{VersionBacksOff, Busy, BackingOff, "target", "the version that the cluster wants failed here and waits for its next attempt", follows,
			versionBacksOff},
		{RunFailed, Fault, Failing, "runs", "the last run of the timer ended with an error", enabled, runFailed},
		{FindUnreachable, Busy, Waiting, "find", "the proxy's find endpoint, which names the version, cannot be reached, for less " +
			"than an hour so far", follows, findUnreachable},
		{AgentNotStarted, Busy, Waiting, "agent", "the agent does not run, and nothing starts it: it was not started yet, or a " +
			"person stopped, disabled or masked it", settled | active, agentNotStarted},
		{UpdateWaits, Busy, Waiting, "target", "the cluster wants another version; a run of the timer switches to it once it is " +
			"this host's turn", follows, updateWaits},
		{TargetUnknown, Busy, Waiting, "target", "the cluster has not named a version yet", follows, targetUnknown},
		{Unproven, Busy, Waiting, "proof", "the agent was not running when the host switched to the version; a run of the timer " +
			"proves the version once the agent was healthy for the health window", active, unproven},
		{NoSystemd, Busy, Waiting, "systemd", "systemd does not run here: agent and timer start once it does", settled | active, noSystemd},
		{TimerOff, Setting, Idle, "timer", "a person masked or disabled the updater's timer: the host follows the cluster only by `update`",
			settled | enabled, timerOff},
		{TargetNone, Note, Idle, "target", "the cluster names no version: the host stays on the one it has", follows, targetNone},
		{GroupUnknown, Note, Idle, "group", "find has groups, and not the one that this host names: the host is treated as one " +
			"that names no group", enabled, groupUnknown},
		{SettingsUnknown, Note, Idle, "updates.yaml", "updates.yaml has settings that this program does not know: a newer one " +
			"wrote them, or they are misspelt", readable, settingsUnknown},
		{AgentNotEnabled, Note, Idle, "agent at boot", "the agent runs and is not enabled: the next boot does not start it", settled | active,
			agentNotEnabled},
		{CompanionsOld, Note, Idle, "other services", "services beside the agent, as tbot, execute a program of another version " +
			"than the active one until somebody restarts them", settled | active | deep, companionsOld},
		{PackageLeft, Note, Idle, "package", "the package that brought the agent is not removed yet", 0, packageLeft},
		{VersionsLeft, Note, Idle, "old versions", "versions that nothing needs cannot be removed and take space", settled | active,
			versionsLeft},
		{Unsigned, Note, Idle, "policy", "the active version would be refused if the policy required signatures", active, unsigned},
	}
}
