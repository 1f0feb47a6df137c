package rollout

import (
	"strings"
	"testing"
	"time"
)

// Why a host is told what it is told, for each way that a group can be.
func TestWhyAHostIsToldWhatItIsTold(t *testing.T) {
	canaries := regular(`{name: dev, ` + everyDay + `, canary_count: 1}`)
	plan := regular(`{name: dev, ` + everyDay + `, max_in_flight: 1}`)
	begin := func(w *world) {
		w.add("dev", 3, "17.2.0")
		w.begin("Mon 10:30")
		w.tick()
	}
	for _, tc := range []struct {
		name, agents string
		act          func(w *world)
		ask          func(w *world) Query
		row          string
		reasons      []string
	}{
		{"unstarted", canaries, func(w *world) { w.begin("Mon 08:00") }, func(*world) Query { return Query{Group: "dev"} }, "enabled; unstarted: version start, update false",
			[]string{"The rollout goes from 17.2.0 to 17.2.1, by the schedule regular; updates are enabled.", "The host is in group dev.", "Group dev is unstarted; its last change was at Mon 2025-06-02 00:00 UTC (new_version)."}},
		{"example 6, a group that is not there", canaries, func(w *world) { w.begin("Mon 08:00") }, func(*world) Query { return Query{Group: "typo\x1b"} }, "enabled; unstarted",
			[]string{`The host names the group "typo\x1b", which is not in the schedule. It gets the answer of the last group, dev.`}},
		{"no group", canaries, func(w *world) { w.begin("Mon 08:00") }, func(*world) Query { return Query{} }, "enabled; unstarted", []string{"The host names no group. It gets the answer of the last group, dev."}},
		{"held", canaries + ", unmatched: hold", func(w *world) { w.begin("Mon 08:00") }, func(*world) Query { return Query{Group: "typo"} }, "enabled; unstarted", []string{"Hosts of no known group are told to stay as they are (unmatched: hold)."}},
		{"a canary", canaries, begin, func(w *world) Query { return Query{Group: "dev", Host: w.group("dev").Canaries[0].HostID} }, "enabled; canary: version target for the picked", []string{"The host is a canary of the group."}},
		{"no canary", canaries, begin, func(*world) Query { return Query{Group: "dev", Host: "x"} }, "enabled; canary", []string{"The host is not a canary of the group. It waits for those."}},
		{"halted", canaries, func(w *world) { begin(w); w.fail(w.canaryNames("dev")[0]); w.tick() }, func(*world) Query { return Query{Group: "dev"} }, "enabled; canary, halted", []string{"It has been halted since Mon 2025-06-02 10:30 UTC: canary dev-"}},
		{"a place that was reached", plan, func(w *world) { begin(w); w.pass(time.Minute) }, func(w *world) Query { return Query{Group: "dev", Host: w.orders["dev"][0]} }, "enabled; active with a plan", []string{"The host has place 1 of 3 in the plan of the group, and places up to 1 are told to update."}},
		{"a place that was not", plan, func(w *world) { begin(w); w.pass(time.Minute) }, func(w *world) Query { return Query{Group: "dev", Host: w.orders["dev"][1]} }, "enabled; active with a plan", []string{"The host has place 2 of 3 in the plan of the group. So far, places up to 1 are told to update."}},
		{"no place", plan, func(w *world) { begin(w); w.pass(time.Minute) }, func(w *world) Query { return Query{Group: "dev", Host: "x"} }, "enabled; active with a plan", []string{"The host is not in the plan of the group"}},
		{"no name for a place", plan, func(w *world) { begin(w); w.pass(time.Minute) }, func(w *world) Query { return Query{Group: "dev"} }, "enabled; active with a plan", []string{"The host did not say its ID"}},
		{"a plan that is broken", plan, func(w *world) { begin(w); w.plans = nil }, func(w *world) Query { return Query{Group: "dev", Host: "x"} }, "enabled; active with a plan", []string{"The plan of the group cannot be read"}},
		{"a window", "strategy: time-based, " + regular(`{name: dev, `+everyDay+`}`), begin, func(w *world) Query { return Query{Group: "dev"} }, "enabled; active without a plan", []string{"Hosts of the group are told to update before Mon 2025-06-02 11:00 UTC."}},
		{"every host at once", canaries, func(w *world) { w.version = versionWith("", Immediate); w.tick() }, func(w *world) Query { return Query{} }, "enabled; immediate schedule: version target, update true", []string{"by the schedule immediate"}},
		{"no groups", "", func(w *world) { w.tick() }, func(w *world) Query { return Query{} }, "enabled; unstarted", []string{"The schedule has no groups, so no host is told to update."}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			agents := strings.TrimPrefix(tc.agents, ", ")
			w := newWorld(t, agents)
			tc.act(w)
			x := w.snapshot().Explain(tc.ask(w), w.now)
			text := strings.Join(x.Reasons, "\n")
			for _, want := range tc.reasons {
				if !strings.Contains(text, want) {
					t.Errorf("it says\n%s\nwant %s", text, want)
				}
			}
			if !strings.HasPrefix(x.Row, tc.row) {
				t.Errorf("the row is %q; want %q", x.Row, tc.row)
			}
		})
	}
}
