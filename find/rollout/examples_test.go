package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The worked examples of the design, by their words.
func TestWorkedExamples(t *testing.T) {
	t.Run("1. dev daily 13:00, prod weekdays 15:00; dev done Friday 16:30 → prod starts Monday 15:00", func(t *testing.T) {
		w := newWorld(t, regular(`{name: dev, days: ["*"], start_hour: 13}`, `{name: prod, days: [Mon, Tue, Wed, Thu, Fri], start_hour: 15}`))
		hosts := w.add("dev", 10, "17.2.0")
		w.add("prod", 10, "17.2.0")
		w.begin("Fri 13:00")
		w.tick()
		w.want("active unstarted")
		w.pass(3*time.Hour + 30*time.Minute)
		for _, h := range hosts {
			w.update(h, "17.2.1")
		}
		w.tick()
		w.want("done unstarted")
		for w.group("prod").State == Unstarted {
			w.pass(10 * time.Minute)
		}
		if got := w.group("prod").StartTime; !got.Equal(when("Mon 15:00").AddDate(0, 0, 7)) {
			t.Errorf("prod starts %s", got)
		}
	})
	t.Run("2. 100 agents: 89 on target → active; 90 → done", func(t *testing.T) {
		w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
		hosts := w.add("dev", 100, "17.2.0")
		w.begin("Mon 10:00")
		w.tick()
		for _, h := range hosts[:89] {
			w.update(h, "17.2.1")
		}
		w.tick()
		w.want("active")
		w.update(hosts[89], "17.2.1")
		w.tick()
		w.want("done")
	})
	t.Run("3. target_version edited mid-rollout → all unstarted, canaries gone", func(t *testing.T) {
		w := newWorld(t, regular("{name: dev, "+everyDay+", canary_count: 2}", "{name: stage, "+everyDay+", canary_count: 2}"))
		for _, h := range w.add("dev", 5, "17.2.0") {
			w.fleet.named(h).Version = "17.2.1"
		}
		w.add("stage", 5, "17.2.0")
		w.begin("Mon 10:10")
		w.tick()
		w.want("done canary")
		w.version.Spec.Agents.TargetVersion = "17.2.2"
		// From this moment on, whether or not the engine runs.
		for _, c := range w.canaryNames("stage") {
			w.wantTold("stage", c, "17.2.0")
		}
		w.tick()
		w.want("unstarted unstarted")
		for _, g := range w.rollout.Status.Groups {
			if g.Canaries != nil || !g.StartTime.IsZero() {
				t.Errorf("left over: %+v", g)
			}
		}
	})
	t.Run("4. days edited mid-rollout → nothing until the next rollout", func(t *testing.T) {
		w := newWorld(t, regular("{name: dev, days: [Mon], start_hour: 10}"))
		w.add("dev", 5, "17.2.0")
		w.begin("Sun 10:00")
		edited := regular("{name: dev, days: [Sun], start_hour: 10}")
		w.configure(edited)
		w.pass(30 * time.Minute)
		w.want("unstarted")
		w.version.Spec.Agents.TargetVersion = "17.2.2"
		w.tick() // the next rollout
		w.tick()
		w.want("active")
	})
	t.Run("5. Config suspended, version enabled → suspended; one of them disabled → disabled", func(t *testing.T) {
		w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
		w.add("dev", 5, "17.2.0")
		w.begin("Mon 10:00")
		for _, tc := range []struct{ config, version, want Mode }{
			{Suspended, Enabled, Suspended}, {Enabled, Suspended, Suspended}, {Disabled, Enabled, Disabled}, {Suspended, Disabled, Disabled},
		} {
			w.config.Spec.Agents.Mode, w.version.Spec.Agents.Mode = tc.config, tc.version
			w.tick()
			if w.rollout.Spec.Mode != tc.want {
				t.Errorf("config %s, version %s: %s", tc.config, tc.version, w.rollout.Spec.Mode)
			}
			w.want("unstarted")
			w.wantTold("dev", "dev-0", map[Mode]string{Suspended: "17.2.0", Disabled: "17.2.1"}[tc.want])
		}
	})
	t.Run(`6. Group "", absent, or "typo" → the last group's answer`, func(t *testing.T) {
		w := newWorld(t, regular("{name: dev, "+everyDay+"}", "{name: prod, "+everyDay+"}"))
		w.add("dev", 5, "17.2.1")
		w.add("", 3, "17.2.1")
		w.add("typo", 2, "17.2.0")
		w.begin("Mon 10:00")
		w.tick()
		w.want("done active")
		w.wantTold("dev", "", "17.2.1 now")
		for _, group := range []string{"", "typo", "prod"} {
			w.wantTold(group, "", "17.2.1 now")
		}
		w.order(Order{Verb: Rollback, Groups: []string{"prod"}})
		for _, group := range []string{"", "typo", "prod"} {
			w.wantTold(group, "", "17.2.0 now")
		}
		w.wantTold("dev", "", "17.2.1 now")
		if n := w.counts(); n.Groups[1].Present != 5 || len(n.Unmatched) != 1 || n.Unmatched["typo"] != 2 {
			t.Errorf("hosts of no known group: %+v", n)
		}
	})
	// 7 is about the store: TestWorkedExamples of find/server.
	t.Run("8. max_in_flight 10 % of 25 hosts → 2 at a time; the index stays monotonic across a restart of the engine", func(t *testing.T) {
		w := newWorld(t, regular("{name: prod, "+everyDay+", max_in_flight: 10%}"))
		w.add("prod", 25, "17.2.0")
		w.begin("Mon 10:00")
		w.tick()
		if plan := w.group("prod").Plan; plan == nil || plan.HostCount != 25 || plan.LastActiveHostIndex != -1 {
			t.Fatalf("the plan is %+v", plan)
		}
		last, done := -1, 0
		for round := 0; w.group("prod").State == Active; round++ {
			w.pass(time.Minute)
			if round%3 == 2 {
				// Another engine, which does not know all hosts yet.
				known := w.fleet
				w.fleet, w.counted = &fleet{byID: make(map[HostID]*Host)}, false
				w.tick()
				w.fleet, w.counted = known, true
			}
			index := w.group("prod").Plan.LastActiveHostIndex
			if index < last || index+1-done > 2 {
				t.Fatalf("the index is %d after %d, and %d hosts are done", index, last, done)
			}
			last = index
			if index+1-done < 2 && index < 24 {
				t.Errorf("only %d hosts are in flight", index+1-done)
			}
			var now []string
			for _, h := range w.inOrder("prod") {
				if w.poll(h).AutoUpdate && w.fleet.named(h).Version != "17.2.1" {
					now = append(now, h)
				}
			}
			if len(now) > 0 {
				w.update(now[0], "17.2.1")
				done++
			}
			if round > 100 {
				t.Fatal("it does not end")
			}
		}
		w.want("done")
		if done != 25 {
			t.Errorf("done with %d hosts", done)
		}
	})
	t.Run("9. 1 of 5 canaries rolls back → halted; the others keep the start version", func(t *testing.T) {
		w := newWorld(t, regular("{name: prod, "+everyDay+", canary_count: 5}", "{name: late, "+everyDay+"}"))
		hosts := w.add("prod", 20, "17.2.0")
		w.begin("Mon 10:00")
		w.tick()
		w.want("canary unstarted")
		canaries := w.canaryNames("prod")
		if len(canaries) != 5 {
			t.Fatalf("canaries are %q", canaries)
		}
		for _, h := range hosts {
			want := "17.2.0"
			if slices.Contains(canaries, h) {
				want = "17.2.1 now"
			}
			if got := short(w.poll(h)); got != want {
				t.Errorf("host %s is told %s; want %s", h, got, want)
			}
		}
		for _, h := range canaries[1:] {
			w.update(h, "17.2.1")
		}
		w.fail(canaries[0])
		w.tick()
		w.want("canary!canary_failed unstarted")
		if got := w.group("prod").Halted.Message; !strings.Contains(got, canaries[0]) || !strings.Contains(got, "it dies of SIGSEGV") {
			t.Errorf("the message does not name the host and its error: %s", got)
		}
		for _, h := range hosts {
			if got := short(w.poll(h)); !slices.Contains(canaries, h) && got != "17.2.0" || strings.Contains(got, "now") {
				t.Errorf("host %s is told %s", h, got)
			}
		}
		w.pass(48 * time.Hour)
		w.want("canary!canary_failed unstarted")
	})
	t.Run("10. Version schedule immediate → no groups; every host target/true; mark-done refused with a reason", func(t *testing.T) {
		w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
		w.add("dev", 5, "17.2.0")
		w.version.Spec.Agents.Schedule = Immediate
		for range 2 {
			for _, group := range []string{"dev", "", "typo"} {
				w.wantTold(group, "dev-0", "17.2.1 now")
			}
			w.tick()
		}
		if s := w.rollout.Status; len(s.Groups) != 0 || s.State != Active {
			t.Errorf("the status is %+v", s)
		}
		if got := w.refused(Order{Verb: MarkDone, Groups: []string{"dev"}}); !strings.Contains(got, "17.2.1 is on the schedule immediate, which has no groups") {
			t.Errorf("got %s", got)
		}
	})
}
