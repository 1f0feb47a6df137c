package rollout

import (
	"slices"
	"strings"
	"testing"
)

func configWith(m Mode) *Config {
	c := NewConfig()
	c.Spec.Agents.Mode = m
	return c
}

func versionWith(m Mode, s Schedule) *Version {
	v := NewVersion()
	v.Spec.Agents = VersionAgents{StartVersion: "17.2.0", TargetVersion: "17.2.1", Schedule: s, Mode: m}
	return v
}

func TestTheMostRestrictiveModeHolds(t *testing.T) {
	for _, tc := range []struct{ config, version, want Mode }{
		{"", "", Disabled},
		{Enabled, "", Enabled},
		{"", Enabled, Enabled},
		{Enabled, Enabled, Enabled},
		{Suspended, "", Suspended},
		{Suspended, Enabled, Suspended},
		{Enabled, Suspended, Suspended},
		{Disabled, Enabled, Disabled},
		{Enabled, Disabled, Disabled},
		{Suspended, Disabled, Disabled},
		{Disabled, Suspended, Disabled},
		{"", Disabled, Disabled},
	} {
		if got := EffectiveMode(configWith(tc.config), versionWith(tc.version, Immediate)); got != tc.want {
			t.Errorf("config %q and version %q: %s; want %s", tc.config, tc.version, got, tc.want)
		}
	}
	if got := EffectiveMode(nil, nil); got != Disabled {
		t.Errorf("no resources: %s", got)
	}
	if got := EffectiveMode(nil, versionWith(Enabled, Immediate)); got != Enabled {
		t.Errorf("no config: %s", got)
	}
	if got := EffectiveMode(configWith(Suspended), nil); got != Suspended {
		t.Errorf("no version: %s", got)
	}
}

func TestWhatHostsAreToldWithoutARollout(t *testing.T) {
	for _, tc := range []struct {
		schedule Schedule
		mode     Mode
		want     Answer
	}{
		{Immediate, Enabled, Answer{"17.2.1", true}},
		{Immediate, Suspended, Answer{"17.2.1", false}},
		{Immediate, Disabled, Answer{"17.2.1", false}},
		{Immediate, "", Answer{"17.2.1", false}},
		{Regular, Enabled, Answer{"17.2.0", false}},
		{Regular, Suspended, Answer{"17.2.0", false}},
		{Regular, Disabled, Answer{"17.2.1", false}},
		{"", Enabled, Answer{"17.2.0", false}},
		{"", "", Answer{"17.2.1", false}},
	} {
		if got := Decide(configWith(tc.mode), versionWith("", tc.schedule)); got != tc.want {
			t.Errorf("schedule %q, mode %q: %+v; want %+v", tc.schedule, tc.mode, got, tc.want)
		}
	}
	if got := Decide(nil, versionWith(Enabled, Immediate)); got != (Answer{"17.2.1", true}) {
		t.Errorf("without a config: %+v", got)
	}
	v := versionWith(Enabled, Regular)
	v.Spec.Agents.StartVersion = ""
	if got := Decide(nil, v); got != (Answer{"17.2.1", false}) {
		t.Errorf("without a start version: %+v", got)
	}
}

func TestOnlyTheImmediateScheduleIsSupported(t *testing.T) {
	for schedule, supported := range map[Schedule]bool{Immediate: true, Regular: false, "": false} {
		err := Unsupported(versionWith(Enabled, schedule))
		if supported != (err == nil) || err != nil && !(strings.Contains(err.Error(), "cannot do that yet") && strings.Contains(err.Error(), "immediate")) {
			t.Errorf("schedule %q: %v", schedule, err)
		}
	}
	if err := Unsupported(configWith(Enabled)); err != nil {
		t.Errorf("a config: %v", err)
	}
}

func TestAllButTheModeWaitsForTheNextRollout(t *testing.T) {
	full := configWith(Enabled)
	full.Spec.Agents.Strategy = TimeBased
	full.Spec.Agents.Window = 1
	full.Spec.Agents.Schedules.Regular = []Group{{Name: "a", StartHour: hour(4)}}
	same := configWith(Disabled)
	same.Spec.Agents.Strategy = TimeBased
	same.Spec.Agents.Window = 1
	same.Spec.Agents.Schedules.Regular = []Group{{Name: "a", StartHour: hour(4)}}
	all := []string{"spec.agents.strategy", "spec.agents.maintenance_window_duration", "spec.agents.schedules"}
	for name, tc := range map[string]struct {
		before, after *Config
		want          []string
	}{
		"the mode":             {full, same, nil},
		"the first one":        {nil, full, all},
		"the last one":         {full, nil, all},
		"a first mode":         {nil, configWith(Enabled), nil},
		"all that can be said": {configWith(Enabled), full, all},
	} {
		if got := Waiting(tc.before, tc.after); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
	}
}
