package rollout

import (
	"strings"
	"testing"
	"time"
)

// hostOrder gives a host an order of its own.
func (w *world) hostOrder(list Overrides, name string, action HostAction, to string, until time.Time) (Overrides, error) {
	return HostOrder{Host: w.fleet.named(name), Action: action, To: to, Until: until}.Apply(w.config, w.version, list, w.now)
}

// An order to a host decides on its answer, whatever its group says, until it is released or its time is over. It decides
// nothing while updates are not enabled.
func TestAnOrderToAHostDecidesOnItsAnswer(t *testing.T) {
	for _, tc := range []struct {
		name, agents string
		act          func(w *world)
		action       HostAction
		to           string
		want, over   string // with the order, and without it
	}{
		{"before its group's turn", regular("{name: dev, " + everyDay + "}"), func(*world) {}, UpdateHost, "", "17.2.1 now", "17.2.0"},
		{"back to the start version", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.tick() }, UpdateHost, BackToStart, "17.2.0 now", "17.2.1 now"},
		{"back by name", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.tick() }, UpdateHost, "v17.1.0", "17.1.0 now", "17.2.1 now"},
		{"hold", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.tick() }, HoldHost, "", "17.2.1", "17.2.1 now"},
		{"hold, every host at once", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.version = versionWith("", Immediate) }, HoldHost, "", "17.2.1", "17.2.1 now"},
		{"a group that was rolled back", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.tick(); w.order(Order{Verb: Rollback}) }, UpdateHost, "", "17.2.1 now", "17.2.0 now"},
		{"a host of no group that would be held", "unmatched: hold, " + regular("{name: prod, "+everyDay+"}"), func(*world) {}, UpdateHost, "", "17.2.1 now", "17.2.0"},
		{"suspended since", regular("{name: dev, " + everyDay + "}"), func(w *world) { w.tick(); w.config.Spec.Agents.Mode = Suspended }, "", "", "17.2.1", "17.2.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.agents)
			w.add("dev", 2, "17.1.0")
			w.begin("Mon 10:00")
			action := tc.action
			if action == "" {
				action = UpdateHost
			}
			list, err := w.hostOrder(nil, "dev-0", action, tc.to, w.now.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			tc.act(w)
			s := w.snapshot().With(list)
			ask := func(name string) (Answer, string) {
				q := Query{Group: "dev", Host: hostID(name)}
				a := s.Find(q, w.now)
				x := s.Explain(q, w.now)
				if said := strings.Contains(strings.Join(x.Reasons, " "), "hosts ID release ends that"); said != (name == "dev-0" && w.now.Before(list[hostID("dev-0")].Until)) {
					t.Errorf("%s is told %s because %q", name, short(a), x.Reasons)
				}
				return a, short(a)
			}
			a, got := ask("dev-0")
			if _, other := ask("dev-1"); got != tc.want || other != tc.over {
				t.Errorf("the host is told %s, another one %s; want %s and %s", got, other, tc.want, tc.over)
			}
			if got == "17.2.1 now" && !a.RetryFailed.Equal(w.now) {
				t.Errorf("a host on which the version failed waits on, until %s", a.RetryFailed)
			}
			if next := versionWith("", Regular); tc.action == UpdateHost {
				next.Spec.Agents.TargetVersion = "17.3.0"
				if s := NewSnapshot(w.config, next, nil, nil).With(list); s.Find(Query{Group: "dev", Host: hostID("dev-0")}, w.now).AutoUpdate {
					t.Error("the host goes ahead of its group in the next rollout")
				}
			}
			w.now = w.now.Add(time.Hour)
			w.alive()
			if _, got := ask("dev-0"); got != tc.over {
				t.Errorf("an hour later the host is told %s; want %s", got, tc.over)
			}
			w.now = w.now.Add(-time.Minute)
			if list, err = w.hostOrder(list, "dev-0", ReleaseHost, "", time.Time{}); err != nil || len(list) != 0 {
				t.Errorf("after its release: %v, %v", list, err)
			}
		})
	}
}

// An order is refused if the host would not follow it.
func TestOrdersToHostsThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		act    func(w *world)
		action HostAction
		to     string
		until  time.Time
		want   string
	}{
		"a pin of its owner":      {func(w *world) { w.fleet.named("dev-0").Pinned = true }, UpdateHost, "", time.Time{}, "is pinned: only its owner ends that"},
		"updates disabled there":  {func(w *world) { w.fleet.named("dev-0").Disabled = true }, UpdateHost, "", time.Time{}, "has updates disabled"},
		"a host that is away":     {func(w *world) { w.now = w.now.Add(time.Hour) }, UpdateHost, "", time.Time{}, "does not report"},
		"updates suspended":       {func(w *world) { w.config.Spec.Agents.Mode = Suspended }, UpdateHost, "", time.Time{}, "updates are suspended"},
		"no version":              {func(w *world) { w.version = nil }, HoldHost, "", time.Time{}, "no version is set"},
		"a time that is over":     {func(*world) {}, HoldHost, "", monday, "is over"},
		"no version to go to":     {func(*world) {}, UpdateHost, "yesterday", time.Time{}, "neither start nor a version"},
		"a version to be held at": {func(*world) {}, HoldHost, "17.1.0", time.Time{}, "--to is for update"},
		"nothing to release":      {func(*world) {}, ReleaseHost, "", time.Time{}, "has no order of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
			w.add("dev", 1, "17.2.0")
			w.begin("Mon 10:00")
			tc.act(w)
			if list, err := w.hostOrder(nil, "dev-0", tc.action, tc.to, tc.until); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, %v; want %s", list, err, tc.want)
			}
		})
	}
}

// A host that is held is in no count, is no canary, and keeps no place of a plan from others.
func TestAHostThatIsHeldIsInNoCount(t *testing.T) {
	w := newWorld(t, regular("{name: dev, "+everyDay+", max_in_flight: 1}"))
	w.add("dev", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.now = w.now.Add(time.Minute)
	w.tick()
	first := w.inOrder("dev")[0]
	count := func(list Overrides) Counts {
		return Count(w.rollout, w.fleet, w.plans, CountOptions{Complete: true, Now: w.now, Overrides: list})
	}
	if n := count(nil); n.Groups[0].Present != 3 || n.Groups[0].Flight.Place != 0 {
		t.Fatalf("%+v", n.Groups[0])
	}
	list, err := w.hostOrder(nil, first, HoldHost, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	n := count(list)
	if g := n.Groups[0]; g.Present != 2 || len(g.Eligible()) != 2 || g.Flight.Place != 1 || g.Flight.InFlight != 0 || n.Omitted[omitHeld] != 1 {
		t.Errorf("%d hosts are present, %d eligible, the plan is at %+v, omitted are %v", g.Present, len(g.Eligible()), g.Flight, n.Omitted)
	}
}
