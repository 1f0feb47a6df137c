package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Rollout is the resource autoupdate_agent_rollout: how far a version has come. The
// engine writes it, and nobody else; "teleport-find get autoupdate_agent_rollout"
// prints it. docs/resources.schema.json has its format.
//
// It holds a copy of all of the configuration that it needs, so that an edit in
// mid-rollout takes effect with the next rollout. Times are UTC, in whole seconds.
type Rollout struct {
	Kind     string        `json:"kind" yaml:"kind"`
	Version  string        `json:"version,omitempty" yaml:"version,omitempty"`
	Metadata Metadata      `json:"metadata" yaml:"metadata"`
	Spec     RolloutSpec   `json:"spec" yaml:"spec"`
	Status   RolloutStatus `json:"status" yaml:"status"`
}

// RolloutSpec is a copy of the settings at the rollout's beginning. Only Mode follows
// its resources.
type RolloutSpec struct {
	StartVersion  Semver    `json:"start_version" yaml:"start_version"`
	TargetVersion Semver    `json:"target_version" yaml:"target_version"`
	Schedule      Schedule  `json:"schedule" yaml:"schedule"`
	Mode          Mode      `json:"autoupdate_mode" yaml:"autoupdate_mode"`
	Strategy      Strategy  `json:"strategy" yaml:"strategy"`
	Window        Duration  `json:"maintenance_window_duration,omitzero" yaml:"maintenance_window_duration,omitempty"`
	Unmatched     Unmatched `json:"unmatched,omitempty" yaml:"unmatched,omitempty"`
	// AnyHour says that the windows and waits of the groups do not count: a
	// critical version goes through the regular groups.
	AnyHour bool `json:"any_hour,omitempty" yaml:"any_hour,omitempty"`
	// JitterSeconds is the jitter of the immediate schedule.
	JitterSeconds *int `json:"jitter_seconds,omitempty" yaml:"jitter_seconds,omitempty"`
}

// RolloutStatus is how far it has come.
type RolloutStatus struct {
	State     State     `json:"state" yaml:"state"`
	StartTime time.Time `json:"start_time" yaml:"start_time"`
	// CountsTime is when the counts were taken.
	CountsTime time.Time     `json:"counts_time,omitzero" yaml:"counts_time,omitempty"`
	Conditions []Condition   `json:"conditions,omitempty" yaml:"conditions,omitempty"`
	Groups     []GroupStatus `json:"groups,omitempty" yaml:"groups,omitempty"`
}

// GroupStatus is how far one group has come.
type GroupStatus struct {
	Name  string `json:"name" yaml:"name"`
	State State  `json:"state" yaml:"state"`
	// StartTime is when it started, canaries first; at a retry it starts again.
	StartTime time.Time `json:"start_time,omitzero" yaml:"start_time,omitempty"`
	DoneTime  time.Time `json:"done_time,omitzero" yaml:"done_time,omitempty"`
	// RetryTime is when somebody had it try again, or start although it had been halted: hosts on which the version failed
	// before lift their back-off, once for each value.
	RetryTime time.Time `json:"retry_time,omitzero" yaml:"retry_time,omitempty"`
	// StoppedTime is when it was halted or rolled back last: orders to update its hosts that were given before are over.
	StoppedTime time.Time `json:"stopped_time,omitzero" yaml:"stopped_time,omitempty"`
	// WindowEnd is when the last host may begin to update; time-based only.
	WindowEnd        time.Time   `json:"window_end,omitzero" yaml:"window_end,omitempty"`
	LastUpdateTime   time.Time   `json:"last_update_time" yaml:"last_update_time"`
	LastUpdateReason Reason      `json:"last_update_reason" yaml:"last_update_reason"`
	Halted           *Halted     `json:"halted,omitempty" yaml:"halted,omitempty"`
	Conditions       []Condition `json:"conditions,omitempty" yaml:"conditions,omitempty"`

	// PreviousVersion is the version on most of its hosts when the rollout began, and
	// PreviousOthers how many ran another version; empty until hosts have reported.
	PreviousVersion Semver `json:"previous_version,omitempty" yaml:"previous_version,omitempty"`
	PreviousOthers  int    `json:"previous_others,omitempty" yaml:"previous_others,omitempty"`
	// RollbackVersion is the goal of a group that was rolled back.
	RollbackVersion Semver `json:"rollback_version,omitempty" yaml:"rollback_version,omitempty"`

	// InitialCount is how many hosts were present when the group started, or -1 while
	// the server does not know all of them.
	InitialCount int `json:"initial_count" yaml:"initial_count"`
	// The other counts are as in Counts.
	PresentCount   int `json:"present_count" yaml:"present_count"`
	UpToDateCount  int `json:"up_to_date_count" yaml:"up_to_date_count"`
	FailedCount    int `json:"failed_host_count" yaml:"failed_host_count"`
	TimedOutCount  int `json:"timeout_host_count" yaml:"timeout_host_count"`
	InFlightCount  int `json:"in_flight_count" yaml:"in_flight_count"`
	SilentCount    int `json:"silent_count" yaml:"silent_count"`
	UnhealthyCount int `json:"unhealthy_count" yaml:"unhealthy_count"`

	// CanaryCount is how many hosts were picked as canaries; see ConfigCanaryCount.
	CanaryCount int            `json:"canary_count" yaml:"canary_count"`
	Canaries    []Canary       `json:"canaries,omitempty" yaml:"canaries,omitempty"`
	Plan        *PlanReference `json:"plan,omitempty" yaml:"plan,omitempty"`

	// A copy of the Group as the configuration had it.
	ConfigDays           []Day    `json:"config_days,omitempty" yaml:"config_days,omitempty,flow"`
	ConfigStartHour      int      `json:"config_start_hour" yaml:"config_start_hour"`
	ConfigWaitHours      int      `json:"config_wait_hours,omitempty" yaml:"config_wait_hours,omitempty"`
	ConfigCanaryCount    int      `json:"config_canary_count,omitempty" yaml:"config_canary_count,omitempty"`
	ConfigJitterSeconds  *int     `json:"config_jitter_seconds,omitempty" yaml:"config_jitter_seconds,omitempty"`
	ConfigTimeoutSeconds *int     `json:"config_timeout_seconds,omitempty" yaml:"config_timeout_seconds,omitempty"`
	ConfigFailureSeconds *int     `json:"config_failure_seconds,omitempty" yaml:"config_failure_seconds,omitempty"`
	ConfigMaxInFlight    *Share   `json:"config_max_in_flight,omitempty" yaml:"config_max_in_flight,omitempty"`
	ConfigMaxTimeout     *Percent `json:"config_max_timeout_before_halt,omitempty" yaml:"config_max_timeout_before_halt,omitempty"`
	ConfigMaxFailed      *Percent `json:"config_max_failed_before_halt,omitempty" yaml:"config_max_failed_before_halt,omitempty"`
	ConfigRequires       []string `json:"config_requires,omitempty" yaml:"config_requires,omitempty,flow"`
}

// Canary is a host that goes before its group.
type Canary struct {
	UpdaterID string `json:"updater_id,omitempty" yaml:"updater_id,omitempty"`
	HostID    string `json:"host_id" yaml:"host_id"`
	Hostname  string `json:"hostname,omitempty" yaml:"hostname,omitempty"`
	// Success says that it has reported the target.
	Success bool `json:"success" yaml:"success"`
}

// PlanReference is the plan of a group and how far it has come.
type PlanReference struct {
	// StartTime identifies the plan among the plans of other rollouts of the group.
	StartTime time.Time `json:"start_time" yaml:"start_time"`
	HostCount int       `json:"host_count" yaml:"host_count"`
	// LastActiveHostIndex is the place, from 0, of the last host whose turn has come;
	// -1 for none. It never shrinks.
	LastActiveHostIndex int `json:"last_active_host_index" yaml:"last_active_host_index"`
	// IndexTime is when it grew last.
	IndexTime time.Time `json:"index_time,omitzero" yaml:"index_time,omitempty"`
}

// Halted says that a group takes no step by itself any more.
type Halted struct {
	Since   time.Time `json:"since" yaml:"since"`
	Reason  Reason    `json:"reason" yaml:"reason"`
	Message string    `json:"message" yaml:"message"`
}

// Condition is something that a person may have to look at.
type Condition struct {
	Type    ConditionType `json:"type" yaml:"type"`
	Since   time.Time     `json:"since" yaml:"since"`
	Message string        `json:"message" yaml:"message"`
}

// NewRollout returns the rollout that the resources ask for, at its beginning. The
// config may be nil.
func NewRollout(c *Config, v *Version, now time.Time) *Rollout {
	now = moment(now)
	wanted := v.Spec.Agents
	r := &Rollout{Kind: KindRollout, Version: apiVersion, Metadata: Metadata{Name: NameRollout}}
	r.Spec = RolloutSpec{
		StartVersion: cmp.Or(wanted.StartVersion, wanted.TargetVersion), TargetVersion: wanted.TargetVersion,
		Schedule: cmp.Or(wanted.Schedule, Regular), Mode: EffectiveMode(c, v), Strategy: HaltOnError,
	}
	r.Status.StartTime = now
	if c != nil {
		r.copyConfig(c.Spec.Agents, now)
	}
	r.Status.State = r.state()
	return r
}

func (r *Rollout) copyConfig(agents ConfigAgents, now time.Time) {
	r.Spec.Strategy = cmp.Or(agents.Strategy, HaltOnError)
	r.Spec.Unmatched = agents.Unmatched
	if r.Spec.Strategy == TimeBased {
		r.Spec.Window = cmp.Or(agents.Window, Duration(defaultWindow))
	}
	var groups []Group
	switch r.Spec.Schedule {
	case Regular:
		groups = agents.Schedules.Regular
	case Critical:
		groups = agents.Schedules.Critical
		if len(groups) == 0 {
			groups, r.Spec.AnyHour = agents.Schedules.Regular, true
		}
	case Immediate:
		if agents.Schedules.Immediate != nil {
			r.Spec.JitterSeconds = agents.Schedules.Immediate.JitterSeconds
		}
	}
	for _, g := range groups {
		r.Status.Groups = append(r.Status.Groups, GroupStatus{
			Name: g.Name, State: Unstarted, LastUpdateTime: now, LastUpdateReason: NewVersionSet, ConfigCanaryCount: g.CanaryCount,
			ConfigDays: g.Days, ConfigStartHour: *g.StartHour, ConfigWaitHours: g.WaitHours, ConfigJitterSeconds: g.JitterSeconds,
			ConfigTimeoutSeconds: g.TimeoutSeconds, ConfigFailureSeconds: g.FailureSeconds, ConfigMaxInFlight: g.MaxInFlight,
			ConfigMaxTimeout: g.MaxTimeoutBeforeHalt, ConfigMaxFailed: g.MaxFailedBeforeHalt, ConfigRequires: g.Requires,
		})
	}
}

// Of reports whether the rollout belongs to a version. Any other needs a new one.
func (r *Rollout) Of(v *Version) bool {
	wanted := v.Spec.Agents
	return r.Spec.StartVersion == cmp.Or(wanted.StartVersion, wanted.TargetVersion) && r.Spec.TargetVersion == wanted.TargetVersion &&
		r.Spec.Schedule == cmp.Or(wanted.Schedule, Regular)
}

// state is the state of the whole rollout, which follows from its groups. A rollout
// without groups is active if its schedule is immediate.
func (r *Rollout) state() State {
	if len(r.Status.Groups) == 0 {
		if r.Spec.Schedule == Immediate {
			return Active
		}
		return Unstarted
	}
	count := make(map[State]int)
	for i := range r.Status.Groups {
		count[r.Status.Groups[i].State]++
	}
	switch len(r.Status.Groups) {
	case count[Done]:
		return Done
	case count[Unstarted]:
		return Unstarted
	}
	if count[RolledBack] > 0 {
		return RolledBack
	}
	return Active
}

// Clone returns a copy that can be changed.
func (r *Rollout) Clone() *Rollout {
	c := *r
	c.Status.Conditions = slices.Clone(r.Status.Conditions)
	c.Status.Groups = slices.Clone(r.Status.Groups)
	for i := range c.Status.Groups {
		g := &c.Status.Groups[i]
		g.Conditions = slices.Clone(g.Conditions)
		g.Canaries = slices.Clone(g.Canaries)
		if g.Plan != nil {
			plan := *g.Plan
			g.Plan = &plan
		}
		if g.Halted != nil {
			halted := *g.Halted
			g.Halted = &halted
		}
	}
	return &c
}

// group returns the place of a group, or -1.
func (r *Rollout) group(name string) int {
	return slices.IndexFunc(r.Status.Groups, func(g GroupStatus) bool { return g.Name == name })
}

// groups returns the groups as the configuration had them.
func (r *Rollout) groups() []Group {
	var list []Group
	for i := range r.Status.Groups {
		list = append(list, r.Status.Groups[i].config())
	}
	return list
}

func (g *GroupStatus) config() Group {
	return Group{
		Name: g.Name, Days: g.ConfigDays, StartHour: &g.ConfigStartHour, WaitHours: g.ConfigWaitHours, CanaryCount: g.ConfigCanaryCount,
		JitterSeconds: g.ConfigJitterSeconds, TimeoutSeconds: g.ConfigTimeoutSeconds, FailureSeconds: g.ConfigFailureSeconds,
		MaxInFlight: g.ConfigMaxInFlight, MaxTimeoutBeforeHalt: g.ConfigMaxTimeout, MaxFailedBeforeHalt: g.ConfigMaxFailed,
		Requires: g.ConfigRequires,
	}
}

// moment returns a time in the precision and zone of resources.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// GetKind implements Resource.
func (r *Rollout) GetKind() string { return KindRollout }

// GetMetadata implements Resource.
func (r *Rollout) GetMetadata() *Metadata { return &r.Metadata }

// Check implements Resource. A rollout that was damaged must not drive a fleet.
func (r *Rollout) Check() error {
	if err := checkHead(r.Kind, KindRollout, r.Version, r.Metadata, NameRollout); err != nil {
		return err
	}
	if r.Spec.StartVersion == "" || r.Spec.TargetVersion == "" || r.Spec.Schedule == "" || r.Spec.Strategy == "" {
		return fmt.Errorf("spec: it names no versions, no schedule or no strategy")
	}
	names := make(map[string]bool)
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		path := fmt.Sprintf("status.groups[%d]", i)
		switch {
		case names[g.Name]:
			return fmt.Errorf("%s.name: there is another group %s", path, excerpt(g.Name))
		case g.State == "":
			return fmt.Errorf("%s.state: it is missing", path)
		case g.ConfigStartHour < 0 || g.ConfigStartHour > 23:
			return fmt.Errorf("%s.config_start_hour: %d is not an hour from 0 to 23", path, g.ConfigStartHour)
		case g.Plan != nil && (g.Plan.LastActiveHostIndex < -1 || g.Plan.LastActiveHostIndex >= max(g.Plan.HostCount, 0)):
			return fmt.Errorf("%s.plan.last_active_host_index: %d is not a place among %d hosts", path, g.Plan.LastActiveHostIndex, g.Plan.HostCount)
		}
		names[g.Name] = true
	}
	return nil
}
