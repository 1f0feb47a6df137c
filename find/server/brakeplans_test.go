package server

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// The plan of a group cannot be read, and the store is away: updates of another group can be stopped all the same, by
// people and by what its hosts report.
func TestAPlanThatCannotBeReadKeepsNobodyFromStopping(t *testing.T) {
	for name, stop := range map[string]func(t *testing.T, c *control){
		"suspend": func(t *testing.T, c *control) {
			err := c.stored.HoldMode(t.Context(), rollout.Suspended, store.Audit{Who: "uid 0"})
			if err == nil || !strings.Contains(err.Error(), "in force on this server only") {
				t.Errorf("suspend says %v", err)
			}
		},
		"a halt": func(t *testing.T, c *control) {
			for i := 2; i < 4; i++ {
				c.report(i, "b", "17.2.0", func(b *rollout.Heartbeat) {
					b.Told = "17.2.1"
					b.Outcome = &rollout.Outcome{Target: "17.2.1", State: rollout.OutcomeFailed, Time: c.clock.Now()}
				})
			}
			if _, err := c.engine.Tick(t.Context()); err == nil {
				t.Error("the store is not missed")
			}
			if held := strings.Join(c.stored.Held(), "\n"); held != "halted on this server only, not yet written: b" {
				t.Errorf("%q is held", held)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			group := ", days: ['*'], start_hour: 11, max_in_flight: 100%, max_failed_before_halt: 0%}"
			w.write(strings.Replace(enabledGroups("{name: a"+group+", {name: b"+group), "mode: enabled",
				"mode: enabled, strategy: time-based, maintenance_window_duration: 4h", 1))
			w.write(scheduled)
			c := w.control(newClock(), w.store)
			run := func(minutes int) {
				for range minutes {
					c.clock.pass(time.Minute)
					for i := range 4 {
						c.report(i, []string{"a", "b"}[i/2], "17.2.0", nil)
					}
					c.tick()
				}
			}
			run(5)
			head := w.item(rollout.PlanKey("a"))
			if err := w.other.Delete(t.Context(), head.Key, head.Revision); err != nil {
				t.Fatal(err)
			}
			fleet := c.fleet
			c = w.control(c.clock, w.store) // after a restart
			c.fleet = fleet
			c.counting(fleet.Counting)
			run(5)
			if err := c.stored.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			told := func(group string, host int) bool {
				return c.stored.AnswerTo(rollout.Query{Group: group, Host: hostUUID(host)}).AutoUpdate
			}
			if got := c.states(); got != "active?PlanBroken active" || told("a", 0) || !told("b", 3) {
				t.Fatalf("the groups are %s; told to update: %t, %t", got, told("a", 0), told("b", 3))
			}
			dir := filepath.Dir(w.path)
			move(t, dir, dir+".away")
			stop(t, c)
			if told("b", 3) {
				t.Error("hosts are told to update")
			}
			move(t, dir+".away", dir)
		})
	}
}
