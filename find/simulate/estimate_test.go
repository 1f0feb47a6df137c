package simulate

import (
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// Estimates go on from where a rollout is, and never say less than the earliest time.
func TestEstimates(t *testing.T) {
	s := scenario(t, three, nil)
	at := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC) // Monday
	overview := func(edit func(o *rollout.Overview)) rollout.Overview {
		o := rollout.Overview{Groups: []rollout.GroupOverview{
			{Name: "dev", State: rollout.Unstarted, Present: 10, Versions: map[rollout.Semver]int{"1.0.0": 10}},
			{Name: "staging", State: rollout.Unstarted, Present: 50, Versions: map[rollout.Semver]int{"1.0.0": 50}},
			{Name: "prod", State: rollout.Unstarted, Present: 100_000, Versions: map[rollout.Semver]int{"1.0.0": 100_000}},
		}}
		if edit != nil {
			edit(&o)
		}
		return o
	}
	for _, tc := range []struct {
		name string
		edit func(o *rollout.Overview)
		prod string // starts
	}{
		{"nothing has begun", nil, "Tue 15"},
		{"the first is done", func(o *rollout.Overview) {
			o.Groups[0].State, o.Groups[0].Since, o.Groups[0].Versions = rollout.Done, at.Add(-time.Hour), map[rollout.Semver]int{"1.1.0": 10}
		}, "Tue 15"},
		{"the second is on its way", func(o *rollout.Overview) {
			o.Groups[0].State, o.Groups[0].Since = rollout.Done, at.Add(-time.Hour)
			o.Groups[1].State = rollout.Active
		}, "Tue 15"},
		{"the second is halted", func(o *rollout.Overview) {
			o.Groups[0].State, o.Groups[0].Since = rollout.Done, at.Add(-time.Hour)
			o.Groups[1].State, o.Groups[1].Halted = rollout.Active, &rollout.Halted{Since: at, Reason: rollout.HostsFailed}
		}, ""},
		{"the first was rolled back", func(o *rollout.Overview) { o.Groups[0].State = rollout.RolledBack }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begin := time.Now()
			got, err := EstimateGroups(t.Context(), s.Config, s.Version, overview(tc.edit), at)
			if err != nil {
				t.Fatal(err)
			}
			if tc.prod == "" {
				if got["prod"] != (Estimate{}) || got["dev"] != (Estimate{}) {
					t.Errorf("nobody lets the groups go on, and these are expected: %v", got)
				}
				return
			}
			if start := got["prod"].Start; start.Format("Mon 15") != tc.prod || !got["prod"].Done.After(start.Add(30*time.Minute)) {
				t.Errorf("prod starts %s and is done %s; want %s", start, got["prod"].Done, tc.prod)
			}
			for _, earliest := range rollout.Preview(s.Config, s.Version, nil, at) {
				if e := got[earliest.Group].Start; tc.edit == nil && e.Before(earliest.At) {
					t.Errorf("%s is expected at %s, and starts at %s at the earliest", earliest.Group, e, earliest.At)
				}
			}
			t.Logf("it takes %s", time.Since(begin))
		})
	}
	if _, err := EstimateGroups(t.Context(), nil, s.Version, rollout.Overview{}, at); err != nil {
		t.Error(err)
	}
}
