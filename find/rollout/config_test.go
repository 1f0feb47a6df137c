package rollout

import (
	"slices"
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

func TestAllButTheModeWaitsForTheNextRollout(t *testing.T) {
	with := func(mode Mode) *Config {
		c := configWith(mode)
		c.Spec.Agents.Strategy = TimeBased
		c.Spec.Agents.Window = 1
		c.Spec.Agents.Unmatched = Hold
		c.Spec.Agents.Schedules = Schedules{Regular: []Group{{Name: "a", StartHour: hour(4)}}, Critical: []Group{{Name: "b", StartHour: hour(5)}}, Immediate: &ImmediateSchedule{hour(1)}}
		return c
	}
	all := []string{"spec.agents.strategy", "spec.agents.maintenance_window_duration", "spec.agents.unmatched",
		"spec.agents.schedules.regular", "spec.agents.schedules.critical", "spec.agents.schedules.immediate"}
	for name, tc := range map[string]struct {
		before, after *Config
		want          []string
	}{
		"the mode":             {with(Enabled), with(Disabled), nil},
		"the first one":        {nil, with(Enabled), all},
		"the last one":         {with(Enabled), nil, all},
		"a first mode":         {nil, configWith(Enabled), nil},
		"all that can be said": {configWith(Enabled), with(Enabled), all},
	} {
		if got := Waiting(tc.before, tc.after); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q; want %q", name, got, tc.want)
		}
	}
}
