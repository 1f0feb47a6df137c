package server

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

func TestAPlanThatCannotBeReadAdmitsNobody(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	w.write(enabledGroups("{name: prod, days: ['*'], start_hour: 12, max_in_flight: 100%}"))
	w.write(scheduled)
	c := w.control(clock, w.store)
	hosts := func() (told int) {
		for i := range 3000 {
			if c.stored.AnswerTo(rollout.Query{Group: "prod", Host: hostUUID(i)}).AutoUpdate {
				told++
			}
			c.fleet.Take(rollout.Heartbeat{HostID: hostUUID(i), Group: "prod", Version: "17.2.0"}, clock.Now())
		}
		return told
	}
	hosts()
	clock.pass(time.Hour)
	hosts()
	clock.pass(2 * time.Minute)
	for c.tick() {
	}
	if told := hosts(); told != 3000 {
		t.Fatalf("%d hosts are told to update", told)
	}
	pages, _, err := w.other.List(t.Context(), rollout.PageKey(""))
	if err != nil || len(pages) != 1 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	if err := w.other.Delete(t.Context(), pages[0].Key, pages[0].Revision); err != nil {
		t.Fatal(err)
	}
	fresh := w.control(clock, w.other) // whoever has read the plan still has it
	for i := range 3000 {
		fresh.fleet.Take(rollout.Heartbeat{HostID: hostUUID(i), Group: "prod", Version: "17.2.0"}, clock.Now().Add(-2*time.Minute))
	}
	c = fresh
	if told := hosts(); told > 0 {
		t.Errorf("%d hosts are told to update", told)
	}
	if log := w.log.String(); strings.Count(log, "the plan of a group cannot be read") != 1 || !strings.Contains(log, "page 1: it is not there") {
		t.Errorf("the log:\n%s", log)
	}
	c.tick()
	if got := c.states(); got != "active?PlanBroken" {
		t.Errorf("the group is %s", got)
	}
	if _, err := c.engine.Order(t.Context(), rollout.Order{Verb: rollout.Retry, Groups: []string{"prod"}, Who: "uid 0", Why: "the store was damaged"}, false); err != nil {
		t.Fatal(err)
	}
	clock.pass(10 * time.Second)
	c.tick()
	if told := hosts(); told != 3000 || c.states() != "active" {
		t.Errorf("after the retry the group is %s, and %d hosts are told to update", c.states(), told)
	}
	if records, _ := w.store.History(t.Context(), 1); len(records) != 1 || records[0].Who != "uid 0" || !strings.HasPrefix(records[0].What, "rollout retry prod") || records[0].Why != "the store was damaged" {
		t.Errorf("the history: %+v", records)
	}
}

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
