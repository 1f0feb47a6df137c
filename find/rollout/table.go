package rollout

// This file is the engine at a glance: the states of a group, every step that it takes
// by itself, every condition that it reports to people, and every order. Next and Order
// run from these tables, and docs/teleport-find.md prints them.

// State is how far a group, or a whole rollout, has come.
type State string

// The states. A rollout is RolledBack when any group is, Done or Unstarted when all
// groups are, and else Active.
const (
	Unstarted  State = "unstarted"
	Canarying  State = "canary"
	Active     State = "active"
	Done       State = "done"
	RolledBack State = "rolledback"
)

// UnmarshalText takes the five words.
func (s *State) UnmarshalText(text []byte) error {
	return word(s, text, Unstarted, Canarying, Active, Done, RolledBack)
}

// Reason is why a group is in its state.
type Reason string

// The reasons.
const (
	NewVersionSet   Reason = "new_version"
	InWindow        Reason = "in_window"
	CanariesDone    Reason = "canaries_done"
	UpdateComplete  Reason = "update_complete"
	NoHosts         Reason = "no_hosts"
	WindowClosed    Reason = "window_closed"
	CanaryFailed    Reason = "canary_failed"
	CanaryTimedOut  Reason = "canary_timed_out"
	HostsFailed     Reason = "hosts_failed"
	HostsTimedOut   Reason = "hosts_timed_out"
	Expired         Reason = "expired"
	ManualStart     Reason = "manual_start"
	ManualForced    Reason = "manual_forced_start"
	ManualDone      Reason = "manual_done"
	ManualRollback  Reason = "manual_rollback"
	ManualRetry     Reason = "manual_retry"
	ManualReset     Reason = "manual_reset"
	RolloutRollback Reason = "rollout_rolled_back"
)

// ConditionType is the kind of a condition.
type ConditionType string

// The conditions of groups, and of a rollout.
const (
	Stalled      ConditionType = "Stalled"
	PlanBroken   ConditionType = "PlanBroken"
	HeldBack     ConditionType = "HeldBack"
	HostsMissing ConditionType = "HostsMissing"
	WithoutGroup ConditionType = "NoGroups"
)

// States says what each state means, and which commands move a group on.
var States = []StateRow{
	{Unstarted, "the turn of the group has not come", "rollout start"},
	{Canarying, "a few hosts go first, and the others wait for them", "rollout start --force, rollout done, rollout back"},
	{Active, "the hosts of the group are told to update", "rollout done, rollout back"},
	{Done, "the version has come to the group", "rollout back; time-based: rollout start"},
	{RolledBack, "somebody has ordered the group back to the start version, the previous one or a version by name",
		"rollout start, rollout done, rollout back --to, rollout reset"},
}

// StateRow is a state in words.
type StateRow struct {
	State State
	Means string
	Moved string // the commands that move a group on
}

// scope is the set of rollouts in which a row holds.
type scope string

// The scopes. If a critical version goes through the regular groups at any hour, there
// are no windows: under both strategies its groups end when their hosts are updated.
const (
	inOrder      scope = "halt-on-error"
	onTheirOwn   scope = "time-based"
	untilUpdated scope = "halt-on-error; critical at any hour"
	untilClosed  scope = "time-based, in windows"
)

// within reports whether a rollout is in a scope.
func (r *Rollout) within(s scope) bool {
	switch s {
	case inOrder:
		return r.Spec.Strategy == HaltOnError
	case onTheirOwn:
		return r.Spec.Strategy == TimeBased
	case untilUpdated:
		return r.Spec.Strategy == HaltOnError || r.Spec.AnyHour
	case untilClosed:
		return r.Spec.Strategy == TimeBased && !r.Spec.AnyHour
	}
	return true
}

// rules come before the steps of groups, in this order.
var rules = [...]rule{
	replaced: {
		when:  "there is no rollout yet, or its start version, target or schedule differs from that of autoupdate_version",
		holds: func(c *Config, v *Version, r *Rollout, n Counts) bool { return r == nil || !r.Of(v) },
		then:  "a new rollout: the configuration is copied in, all groups are unstarted",
	},
	resting: {
		when:  "the mode is not enabled",
		holds: func(c *Config, v *Version, r *Rollout, n Counts) bool { return EffectiveMode(c, v) != Enabled },
		then:  "no group takes a step; hosts are counted",
	},
	uncounted: {
		when:  "the server started less than 25 minutes ago, so that hosts may be there that it does not know",
		holds: func(c *Config, v *Version, r *Rollout, n Counts) bool { return !n.Complete },
		then:  "no group goes on; a group is halted only for what hosts have reported, and windows end",
	},
}

// transitions are the steps of a group, in the order in which they are tried. A
// group that is halted takes none.
var transitions = []transition{
	{
		from: Unstarted, under: inOrder, counts: true,
		when: "every group before it is done and none of them halted, wait_hours have passed since the last of them was done, it " +
			"is inside the hour from start_hour on an allowed day, and not all hosts of the group are missing; canary_count is above " +
			"0 and hosts can be picked",
		holds: func(s *step) bool { return s.mayStart() && !s.allMissing() && len(s.pick()) > 0 },
		then:  "the hosts that are present are counted, canaries are picked by lot",
		to:    Canarying, reason: InWindow, apply: (*step).startCanaries,
	},
	{
		from: Unstarted, under: inOrder, counts: true,
		when:  "the same, without canaries",
		holds: func(s *step) bool { return s.mayStart() && !s.allMissing() },
		then:  "the hosts that are present are counted; with max_in_flight, a plan is captured",
		to:    Active, reason: InWindow, apply: (*step).startAll,
	},
	{
		from:  Canarying,
		when:  "a canary failed, was rolled back, or began and has not reported since",
		holds: (*step).canaryFailed,
		halt:  true, reason: CanaryFailed, message: (*step).canaryMessage,
	},
	{
		from: Canarying, counts: true,
		when:  "a canary has said that it was told to update, and its jitter and timeout_seconds (3600 where not given) are over",
		holds: (*step).canaryTimedOut,
		halt:  true, reason: CanaryTimedOut, message: (*step).canaryMessage,
	},
	{
		from: Canarying, counts: true,
		when:  "every canary has reported the target",
		holds: (*step).canariesDone,
		then:  "with max_in_flight, a plan is captured",
		to:    Active, reason: CanariesDone, apply: (*step).goOn,
	},
	{
		from:  Active,
		when:  "the group is guarded, and more than max_failed_before_halt of its hosts failed",
		holds: (*step).tooManyFailed,
		halt:  true, reason: HostsFailed, message: (*step).failedMessage,
	},
	{
		from: Active, under: untilUpdated, counts: true,
		when:  "the group is not guarded, and so many of its hosts failed that 90 % cannot come to the target",
		holds: (*step).outOfReach,
		halt:  true, reason: HostsFailed, message: (*step).outOfReachMessage,
	},
	{
		from: Active, counts: true,
		when:  "the group is guarded, and more than max_timeout_before_halt of its hosts timed out",
		holds: (*step).tooManyTimedOut,
		halt:  true, reason: HostsTimedOut, message: (*step).timedOutMessage,
	},
	{
		from: Active, under: untilUpdated, counts: true,
		when: "at least 90 % of the hosts at the start, and of those present, are on the target (guarded: 100 % less both limits); " +
			"with a plan, all its hosts have had their turn",
		holds: (*step).complete,
		to:    Done, reason: UpdateComplete, apply: (*step).finish,
	},
	{
		from: Active, under: untilUpdated, counts: true,
		when:  "there was no host at the start, and the hour is over",
		holds: func(s *step) bool { return s.g.InitialCount == 0 && s.hourOver() },
		to:    Done, reason: NoHosts, apply: (*step).finish,
	},
	{
		from: Active, under: untilClosed,
		when:  "the window is over",
		holds: func(s *step) bool { return !s.g.WindowEnd.IsZero() && !s.now.Before(s.g.WindowEnd) },
		to:    Done, reason: WindowClosed, apply: (*step).finish,
	},
	{
		from: Active, counts: true,
		when:  "the group has a plan that began 24 hours ago, and not all of its hosts have had their turn, or some are in flight still",
		holds: (*step).expired,
		then:  "hosts that were told to update are still told so, and no others",
		halt:  true, reason: Expired, message: (*step).expiredMessage,
	},
	{
		from: Unstarted, under: onTheirOwn, counts: true,
		when:  "it is inside the window from start_hour on an allowed day",
		holds: (*step).mayOpen,
		then:  "with max_in_flight, a plan is captured",
		to:    Active, reason: InWindow, apply: (*step).open,
	},
	{
		from: Done, under: untilClosed, counts: true,
		when:  "the same, and the window ends later than its last one did",
		holds: (*step).mayOpen,
		then:  "with max_in_flight, a new plan is captured",
		to:    Active, reason: InWindow, apply: (*step).open,
	},
}

// conditions do not move a group, but a person should know them.
var conditions = []condition{
	{
		kind: HostsMissing, from: Unstarted, under: inOrder,
		when:    "it is the turn of the group, and none of the hosts that reported within the last day reports now",
		holds:   func(s *step) bool { return s.mayStart() && s.allMissing() },
		message: (*step).missingMessage,
		moved:   "repair of what keeps hosts from reporting; rollout start",
	},
	{
		kind: Stalled, from: Canarying,
		when:    "a canary that has not reported the target is no longer present, or was pinned, disabled or held",
		holds:   (*step).canaryLost,
		message: (*step).lostMessage,
		moved:   "rollout start --force (without canaries), rollout done",
	},
	{
		kind: Stalled, from: Canarying,
		when: "the jitter and timeout_seconds, or 25 minutes if these are less, have passed since the canaries were picked, " +
			"and one of them has not said that it was told to update",
		holds:   (*step).canarySilent,
		message: (*step).silentMessage,
		moved:   "rollout start --force (without canaries), rollout done",
	},
	{
		kind: Stalled, from: Active, under: untilUpdated,
		when: "enough of the hosts that are present are on the target, but they are fewer than 90 % of those at the start " +
			"(guarded: 100 % less both limits)",
		holds:   (*step).shrunk,
		message: (*step).shrunkMessage,
		moved:   "rollout done, once the missing hosts are accounted for",
	},
	{
		kind: Stalled, from: Active, under: untilUpdated,
		when: "all hosts of the plan have had their turn, and none is in flight (silent ones count for 24 hours), and yet " +
			"fewer than 90 % of the hosts are on the target (guarded: 100 % less both limits)",
		holds:   (*step).outgrown,
		message: (*step).outgrownMessage,
		moved:   "rollout done, which tells all hosts to update",
	},
	{
		kind: Stalled, from: Active, under: untilUpdated,
		when:    "the group has no plan, and started 24 hours ago",
		holds:   func(s *step) bool { return s.g.Plan == nil && !s.now.Before(s.g.StartTime.Add(expiry)) },
		message: (*step).slowMessage,
		moved:   "rollout done, rollout back",
	},
	{
		kind: PlanBroken, from: Active,
		when:    "the plan of the group cannot be read",
		holds:   func(s *step) bool { return s.g.Plan != nil && s.n.Flight == nil && !s.captured },
		message: (*step).brokenMessage,
		moved:   "rollout retry, which captures a new plan",
	},
	{
		kind: HeldBack, from: Active,
		when:    "the hosts of the group whose agent is down take all places of max_in_flight",
		holds:   (*step).heldBack,
		message: (*step).heldBackMessage,
		moved:   "repair of these hosts, rollout done",
	},
}

// orders are the things that people can have a group do, whatever its schedule says.
var orders = []order{
	{
		verb: StartUpdate, from: []State{Unstarted, RolledBack},
		when:    "the groups before it are done and none of them halted; or --force",
		refused: (*step).refuseStart,
		then:    "canary, or active where there are no canaries or with --force",
		apply:   (*step).startByHand,
	},
	{
		verb: StartUpdate, from: []State{Canarying}, force: true,
		refused: (*step).refuseStart,
		then:    "active",
		apply:   (*step).forceOn,
	},
	{
		verb: StartUpdate, from: []State{Done}, under: untilClosed,
		refused: (*step).refuseStart,
		then:    "active for the length of a window from now on; the windows of the schedule stay as they are",
		apply:   (*step).startByHand,
	},
	{
		verb: MarkDone, from: []State{Unstarted, Canarying, Active, RolledBack}, halted: true,
		then:  "done, and no longer halted; under halt-on-error all its hosts are told to update",
		apply: (*step).markDone,
	},
	{
		verb: Rollback, from: []State{Canarying, Active, Done, RolledBack}, halted: true,
		when: "the version that it goes back to differs from the target: start, --to previous (what most of the group's hosts " +
			"ran when the rollout began) or --to VERSION",
		refused: (*step).refuseRollback,
		then:    "rolledback, and no longer halted; without names, every group that has started, and the others are halted",
		apply:   (*step).rollBack,
	},
	{
		verb: Retry, from: []State{Unstarted, Canarying, Active}, onlyHalted: true,
		refused: (*step).refuseUncounted,
		then:    "no longer halted: an unstarted group waits for its turn, the others start again, with new canaries and a new plan",
		apply:   (*step).retry,
	},
	{
		verb: Retry, from: []State{Active}, broken: true,
		when:    "its plan cannot be read",
		refused: (*step).refuseUncounted,
		then:    "a new plan is captured",
		apply:   (*step).retry,
	},
}

// resetWords describes reset, the only order for the whole rollout.
const resetWords = "a new rollout of the same version, with the configuration as it is now"
