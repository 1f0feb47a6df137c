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

func TestWhatIsProbablyNotMeantIsPointedOut(t *testing.T) {
	share := func(n int) *Share { return &Share{N: n} }
	percent := func(n Percent) *Percent { return &n }
	for name, tc := range map[string]struct {
		group Group
		want  string // in the only warning; empty for none
	}{
		"nothing":                             {Group{}, ""},
		"a timeout of the health window":      {Group{TimeoutSeconds: hour(30)}, ""},
		"a timeout below it and its jitter":   {Group{TimeoutSeconds: hour(60), JitterSeconds: hour(31)}, "regular[1].timeout_seconds: 60 is less than"},
		"the default timeout and much jitter": {Group{JitterSeconds: hour(3600)}, ""},
		"a failure below two polls":           {Group{FailureSeconds: hour(60)}, "failure_seconds: 60 is less than two polls of a host, and counts as 1200"},
		"a failure of two polls":              {Group{FailureSeconds: hour(1200)}, ""},
		"nobody in flight":                    {Group{MaxInFlight: share(0)}, "max_in_flight: none"},
		"somebody in flight":                  {Group{MaxInFlight: share(1)}, ""},
		"limits that all hosts may exceed":    {Group{MaxTimeoutBeforeHalt: percent(50), MaxFailedBeforeHalt: percent(50)}, "done as soon as it has started"},
		"a wait for another group":            {Group{WaitHours: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := configWith(Enabled)
			tc.group.Name, tc.group.StartHour = "b", hour(5)
			c.Spec.Agents.Schedules.Regular = []Group{{Name: "a", StartHour: hour(4)}, tc.group}
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
			got := c.Warnings()
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Errorf("got %q; want %q", got, tc.want)
			}
		})
	}
	c := configWith(Enabled)
	c.Spec.Agents.Schedules.Regular = []Group{{Name: "a", StartHour: hour(4), WaitHours: 5}}
	if got := c.Warnings(); len(got) != 1 || !strings.Contains(got[0], "regular[0].wait_hours: no group comes before it") {
		t.Errorf("got %q", got)
	}
}
