package server

import (
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// Two servers of which one cannot read the plan of a group do not overwrite each other at every tick: the condition
// and the counts of the plan stay for some minutes.
func TestServersThatSeeAPlanDifferentlyDoNotOverwriteEachOther(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 11, max_in_flight: 2, max_failed_before_halt: 50%, max_timeout_before_halt: 40%}"))
	w.write(scheduled)
	clock := newClock()
	servers := []*control{w.control(clock, w.store), w.control(clock, w.other)}
	blind := servers[1]
	blind.counting(func(r *rollout.Rollout, _ map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
		blind.fleet.Counting(r, nil, now, do)
	})
	pass := func(d time.Duration) {
		clock.pass(d)
		for _, c := range servers {
			for i := range 8 {
				b := rollout.Heartbeat{HostID: hostUUID(i), Group: "dev", Version: "17.2.0"}
				if servers[0].stored.AnswerTo(rollout.Query{Group: "dev", Host: hostUUID(i)}).AutoUpdate {
					b.Told = "17.2.1"
				}
				if i == 0 && b.Told != "" {
					b.Outcome = &rollout.Outcome{Target: "17.2.1", State: rollout.OutcomeFailed, Time: noon}
				}
				c.fleet.Take(b, clock.Now())
			}
		}
	}
	for range 6 {
		pass(time.Minute)
		servers[0].tick()
	}
	if got := servers[0].states(); got != "active" {
		t.Fatalf("the group is %s", got)
	}
	writes := 0
	seen := make(map[string]int)
	for range 60 {
		pass(10 * time.Second)
		for _, c := range servers {
			if c.tick() {
				writes++
			}
			if err := c.stored.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			seen[c.states()]++
		}
		if g := servers[0].rollout().Status.Groups[0]; g.InFlightCount == 0 {
			t.Fatalf("a server that cannot read the plan says that no host is in flight: %+v", g)
		}
	}
	if writes > 12 {
		t.Errorf("%d writes in ten minutes, states %v", writes, seen)
	}
	if seen["active?PlanBroken"] == 0 {
		t.Errorf("nobody is told that a server cannot read the plan: %v", seen)
	}
	t.Logf("%d writes in ten minutes", writes)

	// The plan is there again for both: the condition ends.
	blind.counting(blind.fleet.Counting)
	for range 20 {
		pass(10 * time.Second)
		for _, c := range servers {
			c.tick()
		}
	}
	if got := servers[0].states(); got != "active" {
		t.Errorf("the plan can be read, and the group is %s", got)
	}
}
