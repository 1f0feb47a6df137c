package installer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"teleport-update/installer/state"
	"teleport-update/internal/version"
)

// Condition is one thing that is so about the host, and since when.
type Condition struct {
	Type    ConditionType `json:"type"`
	Since   *time.Time    `json:"since"` // null where nobody wrote it down
	Message string        `json:"message"`
}

// ConditionType says what a condition is about.
type ConditionType string

// The gravest come first: the state of the host is that of the first condition that
// there is.
const (
	RecordsBroken      ConditionType = "records_broken"      // what the updater wrote down cannot be relied on
	TransactionRunning ConditionType = "transaction_running" // an updater is at work
	TransactionOpen    ConditionType = "transaction_open"    // one was cut off
	PolicyBroken       ConditionType = "policy_broken"       // the rules of the host's owner
	UpdatesDisabled    ConditionType = "updates_disabled"
	AgentUnstable      ConditionType = "agent_unstable" // it crashes again and again
	AgentDown          ConditionType = "agent_down"     // it should run and does not
	AgentOtherVersion  ConditionType = "agent_other_version"
	BelowMinimum       ConditionType = "below_minimum" // the active version is one that the policy refuses
	RunsFail           ConditionType = "runs_fail"     // the timer's
	Pinned             ConditionType = "pinned"
	Held               ConditionType = "held"
	BackingOff         ConditionType = "backing_off"
	TargetRefused      ConditionType = "target_refused"
	FindUnreachable    ConditionType = "find_unreachable"
	AgentNotStarted    ConditionType = "agent_not_started" // nobody has had it started yet
	UpdateWaits        ConditionType = "update_waits"      // find wants another version, and not now
	TargetUnknown      ConditionType = "target_unknown"    // find was never asked
	TargetNone         ConditionType = "target_none"       // find names no version
	GroupUnknown       ConditionType = "group_unknown"     // find has groups, and not this host's
	TimerOff           ConditionType = "timer_off"         // no run starts by itself
	RestartPending     ConditionType = "restart_pending"   // the agent differs from its unit
	PackageLeft        ConditionType = "package_left"
	VersionsLeft       ConditionType = "versions_left" // that nothing needs
	Unproven           ConditionType = "unproven"
	Unsigned           ConditionType = "unsigned" // the active version, where signatures are looked at
)

// conditionType is a type of condition, the state that it makes, and what it means, as
// the docs have it.
type conditionType struct {
	Type  ConditionType
	State State
	Means string
}

// conditionTypes are all there are, the gravest first.
var conditionTypes = []conditionType{
	{RecordsBroken, StateNeedsAttention, "the updater's records cannot be read, or do not fit the links"},
	{TransactionRunning, StateUpdating, "an updater is at work"},
	{TransactionOpen, StateNeedsAttention, "a transaction was cut off; the next run closes it"},
	{PolicyBroken, StateNeedsAttention, "the policy of the host's owner is missing although it was there, or cannot be read: the version is not changed"},
	{UpdatesDisabled, StateDisabled, "updates are off: somebody disabled them, or nobody has enabled them"},
	{AgentUnstable, StateUnstable, "the agent crashes again and again after its version was proven"},
	{AgentDown, StateNeedsAttention, "the agent should run and does not"},
	{AgentOtherVersion, StateNeedsAttention, "the agent runs another version than the linked one"},
	{BelowMinimum, StateNeedsAttention, "the active version is below the policy's minimum, or withdrawn; it stays until the cluster names one that is allowed"},
	{RunsFail, StateFailing, "the last runs of the timer failed"},
	{Pinned, StatePinned, "a person pinned the host to a version"},
	{Held, StateHeld, "a rollback by hand holds the host: it does not switch to the version that the cluster wants"},
	{BackingOff, StateBackingOff, "the version that the cluster wants failed here and waits for its next attempt"},
	{TargetRefused, StateNeedsAttention, "the update to the version that the cluster wants is refused: it would put the host at risk"},
	{FindUnreachable, StateWaiting, "the proxy's find endpoint, which names the version, cannot be reached, for less than an hour so far"},
	{AgentNotStarted, StateWaiting, "the agent has not been started yet"},
	{UpdateWaits, StateWaiting, "the cluster wants another version; a run of the timer switches to it once it is this host's turn"},
	{TargetUnknown, StateWaiting, "the cluster has not named a version yet"},
	{TargetNone, StateIdle, "the cluster names no version: the host stays on the one it has"},
	{GroupUnknown, StateIdle, "find has groups, and not the one that this host names: the host is treated as one that names no group"},
	{TimerOff, StateIdle, "the updater's timer is masked or stopped: no run starts by itself, and the host follows the cluster only by `update`"},
	{RestartPending, StateIdle, "the agent runs with other arguments, variables or as another user than its unit says: a reload keeps those that it was started with"},
	{PackageLeft, StateIdle, "the package that brought the agent is not removed yet"},
	{VersionsLeft, StateIdle, "versions that nothing needs cannot be removed and take space"},
	{Unsigned, StateIdle, "the active version would be refused if the policy required signatures"},
	{Unproven, StateIdle, "the agent was not running when the host switched to the version; a run of the timer proves the version once the agent was healthy for the health window"},
}

func gravity(t ConditionType) int {
	return slices.IndexFunc(conditionTypes, func(c conditionType) bool { return c.Type == t })
}

// sumUp puts the gravest condition first, and makes the state of it.
func sumUp(all []Condition) (sorted []Condition, s State, explanation string) {
	sorted = append([]Condition{}, all...) // never nil: JSON readers loop over it
	slices.SortStableFunc(sorted, func(a, b Condition) int { return cmp.Compare(gravity(a.Type), gravity(b.Type)) })
	if len(sorted) > 0 {
		if s = conditionTypes[gravity(sorted[0].Type)].State; s != StateIdle || sorted[0].Type == TargetNone {
			return sorted, s, sorted[0].Message
		}
	}
	return sorted, StateIdle, "the version that the cluster wants is active"
}

// conditions are all that there are, in no order.
func conditions(c state.Config, r Report, agent agentView, ticks state.Ticks, broken error, now time.Time) (all []Condition) {
	add := func(t ConditionType, since *time.Time, format string, args ...any) {
		all = append(all, Condition{t, since, fmt.Sprintf(format, args...)})
	}
	desired := version.Release{}
	if r.VersionDesired != nil && r.EditionDesired != nil {
		desired = version.Release{Version: *r.VersionDesired, Edition: version.Edition(*r.EditionDesired)}
	}
	all = append(all, r.policy.conditions()...)
	if broken != nil {
		add(RecordsBroken, nil, "%v", broken)
	}
	if o := r.OpenTransaction; o != nil && o.Running {
		add(TransactionRunning, &o.Since, "%s", o.explanation)
	} else if o != nil {
		add(TransactionOpen, &o.Since, "%s", o.explanation)
	} else {
		all = append(all, agent.conditions(c.Active(), ticks.Unstable, previousToGoBackTo(c))...)
		if agent.pending.Is() && c.Spec.ActiveVersion != "" {
			add(RestartPending, nil, "%s", agent.pending.explained())
		}
		if agent.timerOff != "" && c.Spec.Enabled {
			add(TimerOff, nil, "%s", agent.timerOff)
		}
	}
	if len(c.Status.PackagesLeft) > 0 {
		add(PackageLeft, &c.Status.PackagesLeft[0].Since, "%s", describeLeft(c.Status.PackagesLeft))
	}
	if r.oldVersionsLeft != "" {
		add(VersionsLeft, nil, "%s", r.oldVersionsLeft)
	}
	if c.Status.Unproven {
		add(Unproven, r.UpdateTimeLast, "the agent was not running when the host switched to version %s", c.Spec.ActiveVersion)
	}
	if !c.Spec.Enabled {
		add(UpdatesDisabled, nil, "updates are disabled; `teleport-update enable` turns them on")
		return all
	}
	if f := ticks.Failing; f != nil {
		add(RunsFail, &f.First, "%s", describeFailing(f))
	}
	if u := ticks.Unreachable; u != nil && ticks.Failing == nil {
		add(FindUnreachable, &u.Since, "the proxy's find endpoint cannot be reached since %s: %s", u.Since.Format(time.RFC3339), u.Error)
	}
	if r.groupUnknown {
		add(GroupUnknown, nil, "%s", unknownGroup(textOr(r.Group, "")))
	}
	if c.Spec.Pinned {
		add(Pinned, nil, "pinned to %s; `teleport-update unpin` lets it follow the cluster again", c.Spec.ActiveVersion)
		return all
	}
	aboutTarget(add, c, r, desired, now)
	return all
}

// aboutTarget says why what find wants is not active.
func aboutTarget(add func(t ConditionType, since *time.Time, format string, args ...any), c state.Config, r Report, desired version.Release, now time.Time) {
	h, f := c.Status.Held, c.Status.FailureOf(desired)
	switch {
	case h != nil && (desired.Version == "" || h.Version == desired.Version && h.Edition == desired.Edition):
		add(Held, &h.Since, "the host is held since a rollback by hand, and does not switch to version %s; `teleport-update update --now` releases it", h.Version)
	case desired.Version != "" && f.BackingOff(desired, now):
		add(BackingOff, r.UpdateTimeLast, "version %s failed %d %s; next attempt at %s, `teleport-update update --now` tries at once",
			f.Version, f.Attempts, plural(f.Attempts, "time", "times"), f.NextAttempt.Format(time.RFC3339))
	case c.Status.Refused.Is(desired):
		add(TargetRefused, nil, "%s", c.Status.Refused.Reason)
	case desired.Version == "" && r.DesiredCheckedAt != nil:
		add(TargetNone, nil, namesNoVersion)
	case desired.Version == "":
		add(TargetUnknown, nil, "the version that the cluster wants is not known: %s", textOr(r.DesiredError, "it has not been asked yet"))
	case desired != c.Active() && r.JitterUntil != nil:
		add(UpdateWaits, nil, "the cluster wants %s; this host switches at %s, a random time, so that not all hosts switch at once. `teleport-update update --now` switches now",
			desired.Short(), r.JitterUntil.Format(time.RFC3339))
	case desired != c.Active():
		add(UpdateWaits, nil, "the cluster wants %s; a run of the timer switches to it once it is this host's turn", desired.Short())
	}
}

// previousToGoBackTo is the version that a rollback without a name goes back to.
func previousToGoBackTo(c state.Config) string {
	if c.Status.Held != nil {
		return ""
	}
	return c.Status.PreviousVersion
}

func describeFailing(f *state.Failing) string {
	next := "the next run tries again"
	if !f.NextAttempt.IsZero() {
		next = "the next attempt is at " + f.NextAttempt.Format(time.RFC3339) + ", `teleport-update update` tries at once"
	}
	return fmt.Sprintf("the last %d %s of the timer failed, since %s; %s: %s", f.Count, plural(f.Count, "run", "runs"), f.First.Format(time.RFC3339), next, f.Error)
}
