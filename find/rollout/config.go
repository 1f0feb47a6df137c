package rollout

import "reflect"

// Config is the resource autoupdate_config: how and when hosts are updated. All of
// it but the mode takes effect with the next rollout.
//
//	kind: autoupdate_config
//	metadata: {name: autoupdate-config}
//	spec:
//	  agents:
//	    mode: enabled                      # enabled, suspended, disabled; see EffectiveMode
//	    strategy: halt-on-error            # or time-based; unset is halt-on-error
//	    maintenance_window_duration: 1h    # time-based only; unset is 1h, at most 24h
//	    unmatched: last-group              # or hold: hosts of no known group stay as they are
//	    schedules:
//	      regular:                         # groups in their order; see Group
//	      - name: staging
//	        start_hour: 4
//	      critical: []                     # for critical versions; none: the regular groups, at any hour
//	      immediate: {jitter_seconds: 60}
//	  tools: {mode: enabled}               # or disabled, which unset is
//
// The spellings of RFD 0169 are taken too, see spellings.go.
type Config struct {
	Kind     string     `json:"kind" yaml:"kind"`
	Version  string     `json:"version,omitempty" yaml:"version,omitempty"`
	Metadata Metadata   `json:"metadata" yaml:"metadata"`
	Spec     ConfigSpec `json:"spec" yaml:"spec"`
}

// ConfigSpec is the specification of a Config.
type ConfigSpec struct {
	Agents ConfigAgents `json:"agents,omitzero" yaml:"agents,omitempty"`
	Tools  ConfigTools  `json:"tools,omitzero" yaml:"tools,omitempty"`
}

// ConfigAgents is about agents.
type ConfigAgents struct {
	Mode     Mode     `json:"mode,omitempty" yaml:"mode,omitempty"`
	Strategy Strategy `json:"strategy,omitempty" yaml:"strategy,omitempty"`
	// Window is how long the groups of the time-based strategy may update.
	Window    Duration  `json:"maintenance_window_duration,omitzero" yaml:"maintenance_window_duration,omitempty"`
	Unmatched Unmatched `json:"unmatched,omitempty" yaml:"unmatched,omitempty"`
	Schedules Schedules `json:"schedules,omitzero" yaml:"schedules,omitempty"`
}

// Schedules are lists of groups, each with its times. For hosts without a group, or of
// another one, see Unmatched.
type Schedules struct {
	Regular   []Group            `json:"regular,omitempty" yaml:"regular,omitempty"`
	Critical  []Group            `json:"critical,omitempty" yaml:"critical,omitempty"`
	Immediate *ImmediateSchedule `json:"immediate,omitempty" yaml:"immediate,omitempty"`
}

// ImmediateSchedule is for every host at once: there are no groups.
type ImmediateSchedule struct {
	// JitterSeconds is as in Group.
	JitterSeconds *int `json:"jitter_seconds,omitempty" yaml:"jitter_seconds,omitempty"`
}

// Group is when and how the hosts of one update group are updated. A group with any
// of timeout_seconds, failure_seconds, max_in_flight, max_timeout_before_halt and
// max_failed_before_halt is guarded: it is halted when too many hosts time out or
// fail. One with max_in_flight has a Plan.
type Group struct {
	Name string `json:"name" yaml:"name"`
	// Days are Monday to Thursday by default.
	Days []Day `json:"days,omitempty" yaml:"days,omitempty,flow"`
	// StartHour is in UTC, 0 to 23.
	StartHour *int `json:"start_hour" yaml:"start_hour"`
	// WaitHours pass after the groups before are done. Strategy halt-on-error only.
	WaitHours int `json:"wait_hours,omitempty" yaml:"wait_hours,omitempty"`
	// CanaryCount is how many hosts go first, 0 to 5. Strategy halt-on-error only.
	CanaryCount int `json:"canary_count,omitempty" yaml:"canary_count,omitempty"`

	// JitterSeconds bounds the random wait of a host before it updates. If it is not
	// set, the server's default holds.
	JitterSeconds *int `json:"jitter_seconds,omitempty" yaml:"jitter_seconds,omitempty"`
	// TimeoutSeconds is how long a host may take after it said that it shall update,
	// beside its jitter. The default is 3600, for canaries too.
	TimeoutSeconds *int `json:"timeout_seconds,omitempty" yaml:"timeout_seconds,omitempty"`
	// FailureSeconds is how long a host may be silent after it said that it begins
	// an update. Less than two polls, 1200, counts as two polls.
	FailureSeconds *int `json:"failure_seconds,omitempty" yaml:"failure_seconds,omitempty"`
	// MaxInFlight is how many hosts may be updating at once: a number, or a part
	// of the hosts of the plan.
	MaxInFlight *Share `json:"max_in_flight,omitempty" yaml:"max_in_flight,omitempty"`
	// MaxTimeoutBeforeHalt and MaxFailedBeforeHalt are the largest parts of the hosts
	// that may time out or fail. The defaults are 10 % and 0.
	MaxTimeoutBeforeHalt *Percent `json:"max_timeout_before_halt,omitempty" yaml:"max_timeout_before_halt,omitempty"`
	MaxFailedBeforeHalt  *Percent `json:"max_failed_before_halt,omitempty" yaml:"max_failed_before_halt,omitempty"`
	// Requires names the groups that must be done before this one starts. As soon
	// as one group of a schedule has it, the order of the list means nothing.
	Requires []string `json:"requires,omitempty" yaml:"requires,omitempty,flow"`
}

// ConfigTools is about client tools: tsh and tctl of people.
type ConfigTools struct {
	Mode ToolsMode `json:"mode,omitempty" yaml:"mode,omitempty"`
}

// NewConfig returns an empty configuration with its kind, version and name.
func NewConfig() *Config {
	return &Config{Kind: KindConfig, Version: apiVersion, Metadata: Metadata{Name: NameConfig}}
}

// GetKind implements Resource.
func (c *Config) GetKind() string { return KindConfig }

// GetMetadata implements Resource.
func (c *Config) GetMetadata() *Metadata { return &c.Metadata }

// EffectiveMode is the more restrictive of the modes that are set. If neither is set,
// agents are not updated. Both resources may be nil.
func EffectiveMode(c *Config, v *Version) Mode {
	order := []Mode{Disabled, Suspended, Enabled}
	var set []Mode
	if c != nil {
		set = append(set, c.Spec.Agents.Mode)
	}
	if v != nil {
		set = append(set, v.Spec.Agents.Mode)
	}
	for _, mode := range order {
		for _, m := range set {
			if m == mode {
				return mode
			}
		}
	}
	return Disabled
}

// Waiting returns the paths of differences between two configurations that take effect
// only with the next rollout. Both may be nil. The mode is not among the paths, since
// it acts at once.
func Waiting(before, after *Config) (paths []string) {
	var a, b ConfigAgents
	if before != nil {
		a = before.Spec.Agents
	}
	if after != nil {
		b = after.Spec.Agents
	}
	for _, part := range []struct {
		path          string
		before, after any
	}{
		{"spec.agents.strategy", a.Strategy, b.Strategy},
		{"spec.agents.maintenance_window_duration", a.Window, b.Window},
		{"spec.agents.unmatched", a.Unmatched, b.Unmatched},
		{"spec.agents.schedules.regular", a.Schedules.Regular, b.Schedules.Regular},
		{"spec.agents.schedules.critical", a.Schedules.Critical, b.Schedules.Critical},
		{"spec.agents.schedules.immediate", a.Schedules.Immediate, b.Schedules.Immediate},
	} {
		if !reflect.DeepEqual(part.before, part.after) {
			paths = append(paths, part.path)
		}
	}
	return paths
}
