package rollout

import (
	"strings"
	"testing"
	"time"
)

// What people should know before it happens: that nobody reports, and that a plan
// cannot end in time.
func TestWhatIsForeseen(t *testing.T) {
	plan := func(limit string) string { return "{name: prod, " + everyDay + ", max_in_flight: " + limit + "}" }
	for _, tc := range []struct {
		name, agents string
		act          func(w *world)
		want         []string
	}{
		{"nobody has ever reported", regular("{name: dev, " + everyDay + "}"), func(w *world) {}, []string{"no host reports: each group is done when its hour is over"}},
		{"nobody has ever reported, under time-based", "strategy: time-based, " + regular("{name: dev, "+everyDay+"}"), func(w *world) {},
			[]string{"no host reports: each group is done when its window is over"}},
		{"nobody has ever reported, and the server has just started", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.counted = false }, []string{"no host reports: "}},
		{"a server that has just started, and knows hosts", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.add("dev", 2, "17.2.0"); w.pass(time.Hour, "dev-0", "dev-1"); w.counted = false }, nil},
		{"one group reports", regular("{name: dev, "+everyDay+"}", "{name: prod, "+everyDay+"}"), func(w *world) { w.add("dev", 2, "17.2.0") }, []string{"no host of prod reports: "}},
		{"one group has stopped to report", regular("{name: dev, "+everyDay+"}", "{name: prod, "+everyDay+"}"), func(w *world) {
			w.add("dev", 2, "17.2.0")
			w.pass(25*time.Hour, w.add("prod", 2, "17.2.0")...)
		}, []string{"no host of prod reports: the group is done when its hour is over, and nothing shows whether its hosts have updated; hosts that have joined and do not report now: 2 (hosts --state absent)"}},
		{"all report", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.add("dev", 2, "17.2.0") }, nil},
		{"a plan that takes too long", regular(plan("1")), func(w *world) { w.add("prod", 200, "17.2.0") },
			[]string{"group prod: 200 hosts, so many at a time as max_in_flight 1 allows, take about 33 hours, and a plan expires 24 hours after its start"}},
		{"a plan that ends in time", regular(plan("10%")), func(w *world) { w.add("prod", 200, "17.2.0") }, nil},
		{"hosts that are on the version already", regular(plan("1")), func(w *world) { w.add("prod", 200, "17.2.1") }, nil},
		{"a plan that takes longer than its window", "strategy: time-based, " + regular(plan("10%")), func(w *world) { w.add("prod", 200, "17.2.0") },
			[]string{"group prod: 200 hosts, so many at a time as max_in_flight 10% allows, take about 100 minutes, and its window is 60 minutes long: the hosts that are left wait for the next windows"}},
		{"a plan on its way, at the pace of its hosts", regular(plan("1")), func(w *world) {
			names := w.add("prod", 10, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			w.pass(5 * time.Hour) // in which one of them updates
			w.update(w.inOrder("prod")[0], "17.2.1")
			w.alive(names...)
			w.tick()
		}, []string{"group prod: at this pace its plan takes until Wed 2025-06-04 12:00 UTC, and it expires at Tue 2025-06-03 10:00 UTC, 24 hours after its start"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.agents)
			tc.act(w)
			s := w.scene()
			if s.Rollout == nil {
				s.Counts = Count(NewRollout(w.config, w.version, w.now), w.fleet, nil, CountOptions{Complete: w.counted, Now: w.now})
			}
			got := Foresee(s)
			if len(got) != len(tc.want) {
				t.Fatalf("foreseen: %q; want %q", got, tc.want)
			}
			for i := range got {
				if !strings.Contains(got[i], tc.want[i]) {
					t.Errorf("foreseen: %s; want %s", got[i], tc.want[i])
				}
			}
		})
	}
}

// The next rollout starts from what hosts run, whatever became of the last one.
func TestTheNextRolloutStartsFromWhatHostsRun(t *testing.T) {
	group := func(versions map[Semver]int) GroupOverview { return GroupOverview{Versions: versions} }
	for _, tc := range []struct {
		groups []GroupOverview
		want   Semver
	}{
		{nil, ""},
		{[]GroupOverview{group(nil), group(map[Semver]int{"": 9})}, ""},
		{[]GroupOverview{group(map[Semver]int{"1.1.0": 10}), group(map[Semver]int{"1.1.0": 10, "1.0.0": 1})}, "1.1.0"}, // halted, and all but one updated
		{[]GroupOverview{group(map[Semver]int{"1.1.0": 2}), group(map[Semver]int{"1.0.0": 20})}, "1.0.0"},              // a few tried it
		{[]GroupOverview{group(map[Semver]int{"1.9.0": 5, "1.10.0": 5, "1.2.0": 5})}, "1.10.0"},
	} {
		if got, _, _ := MostRun(tc.groups); got != tc.want {
			t.Errorf("%v: %s; want %s", tc.groups, got, tc.want)
		}
	}
	w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
	w.add("dev", 3, "17.2.0")
	w.join("ahead", "dev", "17.2.0")
	w.fleet.named("ahead").Version = "17.3.0"
	w.begin("Mon 08:00")
	got := Foresee(w.scene())
	if len(got) != 1 || !strings.Contains(got[0], "1 host of dev runs a version newer than the start version 17.2.0, up to 17.3.0") {
		t.Errorf("foreseen: %q", got)
	}
}
