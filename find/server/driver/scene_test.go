package driver

import (
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
)

// fleetAt is an inventory of which only the time is asked.
type fleetAt struct{ Inventory }

func (fleetAt) CompleteAt() time.Time { return time.Time{} }

// Counts of other groups, or of other versions, say nothing about a rollout.
func TestASceneHasNoCountsOfAnotherRollout(t *testing.T) {
	of := func(target rollout.Semver, groups ...string) *rollout.Rollout {
		r := &rollout.Rollout{Spec: rollout.RolloutSpec{StartVersion: "15.1.0", TargetVersion: target}}
		for _, name := range groups {
			r.Status.Groups = append(r.Status.Groups, rollout.GroupStatus{Name: name})
		}
		return r
	}
	counted := of("15.2.0", "dev", "prod")
	for name, tc := range map[string]struct {
		shown *rollout.Rollout
		fits  bool
	}{
		"the same":            {of("15.2.0", "dev", "prod"), true},
		"groups in new order": {of("15.2.0", "prod", "dev"), false},
		"other groups":        {of("15.2.0", "dev", "stage"), false},
		"another target":      {of("15.3.0", "dev", "prod"), false},
	} {
		e := NewEngine(Options{Clock: time.Now, Inventory: fleetAt{}})
		e.status.Counts = rollout.Counts{Subject: counted.Subject(), Groups: []rollout.GroupCounts{{Present: 7}, {}}}
		got := e.CountedScene(answers.Resources{Rollout: tc.shown}).Counts.Groups
		if len(got) != 2 || (got[0].Present == 7) != tc.fits {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
