package rollout

import (
	"strings"
	"testing"
	"time"
)

// hostOrder gives a host an order of its own.
func (w *world) hostOrder(list Overrides, name string, action HostAction, to string, until time.Time) (Overrides, error) {
	return HostOrder{Host: w.fleet.named(name), Action: action, To: to, Until: until, Known: w.fleet.Host}.Apply(w.config, w.version, w.rollout, list, w.now)
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

// A rollback, a halt and a new rollout end the orders to update that were given before. An order that is given then holds.
func TestAnOrderToUpdateEndsIfItsGroupStops(t *testing.T) {
	for name, stop := range map[string]func(w *world){
		"its group is rolled back": func(w *world) {
			w.order(Order{Verb: StartUpdate, Groups: []string{"dev"}, Force: true})
			w.order(Order{Verb: Rollback, Groups: []string{"dev"}})
		},
		"another group is rolled back, and so its own does not start": func(w *world) {
			w.order(Order{Verb: StartUpdate, Groups: []string{"prod"}, Force: true})
			w.order(Order{Verb: Rollback})
		},
		"the rollout is reset": func(w *world) { w.order(Order{Verb: Reset}) },
		"its group is halted": func(w *world) {
			w.order(Order{Verb: StartUpdate, Groups: []string{"dev"}, Force: true})
			for range 2 {
				w.now = w.now.Add(time.Minute)
				w.poll("dev-1")
				w.fail("dev-1")
				w.tick()
			}
			if w.group("dev").Halted == nil {
				w.t.Fatal(w.states())
			}
		},
		"another version, and the same again": func(w *world) {
			w.version.Spec.Agents.TargetVersion = "17.3.0"
			w.tick()
			w.now = w.now.Add(time.Minute)
			w.version.Spec.Agents.TargetVersion = "17.2.1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, regular("{name: dev, "+everyDay+", max_failed_before_halt: 1%}", "{name: prod, "+everyDay+"}"))
			w.add("dev", 2, "17.2.0")
			w.add("prod", 1, "17.2.0")
			w.begin("Mon 09:00")
			order := func(list Overrides) Overrides {
				t.Helper()
				list, err := w.hostOrder(list, "dev-0", UpdateHost, "17.1.0", time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				return list
			}
			list := order(nil)
			wantOrdered := func(want bool) {
				t.Helper()
				s := w.snapshot().With(list)
				for _, group := range []string{"dev", "prod"} { // its own, and one that it changes to
					got, other := short(s.Find(Query{Group: group, Host: hostID("dev-0")}, w.now)), short(s.Find(Query{Group: group, Host: hostID("dev-1")}, w.now))
					if (got == "17.1.0 now") != want || !want && got != other {
						t.Errorf("%s: in %s the host is told %s, another one %s; want the order's answer %v", w.states(), group, got, other, want)
					}
				}
			}
			wantOrdered(true)
			stop(w)
			wantOrdered(false)
			w.tick()
			wantOrdered(false)
			list = order(list)
			wantOrdered(true)
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
		"no version":              {func(w *world) { w.version = nil }, UpdateHost, "", time.Time{}, "no version is set"},
		"no rollout yet":          {func(w *world) { w.version.Spec.Agents.TargetVersion = "17.3.0" }, UpdateHost, "", time.Time{}, "has not begun"},
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

// Orders of hosts that the fleet does not know are dropped with the next order, if the fleet is known. A release takes any host.
func TestOrdersOfUnknownHostsAreDropped(t *testing.T) {
	w := newWorld(t, regular("{name: dev, "+everyDay+"}"))
	w.add("dev", 2, "17.2.0")
	w.version = nil // a hold needs none
	list, err := w.hostOrder(nil, "dev-0", HoldHost, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	gone := *w.fleet.named("dev-0")
	delete(w.fleet.byID, gone.ID)
	hold := HostOrder{Host: w.fleet.named("dev-1"), Action: HoldHost}
	for _, known := range []func(HostID) *Host{nil, w.fleet.Host} {
		hold.Known = known
		want := 1
		if known == nil {
			want = 2
		}
		if next, err := hold.Apply(nil, nil, nil, list, w.now); err != nil || len(next) != want {
			t.Errorf("%v, %v; want %d orders", next, err, want)
		}
	}
	release := HostOrder{Host: &Host{ID: gone.ID}, Action: ReleaseHost}
	if next, err := release.Apply(nil, nil, nil, list, w.now); err != nil || len(next) != 0 {
		t.Errorf("after a release: %v, %v", next, err)
	}
}

// A host that is held or sent to another version is in no count, is no canary, keeps no place of a plan from others, and halts
// no group.
func TestAHostThatIsKeptApartIsInNoCount(t *testing.T) {
	for _, tc := range []struct {
		name, group string
		action      HostAction
		to, reason  string
	}{
		{"held, of a plan", ", max_in_flight: 1", HoldHost, "", omitHeld},
		{"sent back, of a plan", ", max_in_flight: 1", UpdateHost, BackToStart, omitElsewhere},
		{"sent to another version, of a plan", ", max_in_flight: 1", UpdateHost, "17.1.0", omitElsewhere},
		{"held, without a plan", "", HoldHost, "", omitHeld},
		{"sent back, without a plan", "", UpdateHost, BackToStart, omitElsewhere},
		{"held, a canary", ", canary_count: 1", HoldHost, "", omitHeld},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, regular("{name: dev, "+everyDay+tc.group+"}"))
			w.add("dev", 3, "17.2.0")
			w.begin("Mon 10:00")
			w.tick()
			w.now = w.now.Add(time.Minute)
			w.tick()
			first := "dev-0"
			switch g := w.group("dev"); {
			case g.Plan != nil:
				first = w.inOrder("dev")[0]
			case len(g.Canaries) > 0:
				first = w.canaryNames("dev")[0]
			}
			w.poll(first)
			w.fail(first)
			count := func(list Overrides, fleet Fleet) Counts {
				return Count(w.rollout, fleet, w.plans, CountOptions{Complete: true, Now: w.now, Overrides: list})
			}
			g := count(nil, w.fleet).Groups[0]
			if g.Present != 3 || g.Failed != 1 || len(g.Canaries) == 1 && !g.Canaries[0].Failed {
				t.Fatalf("%+v", g)
			}
			list, err := w.hostOrder(nil, first, tc.action, tc.to, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			n := count(list, w.fleet)
			g = n.Groups[0]
			if g.Present != 2 || len(g.Eligible()) != 2 || g.Failed != 0 || len(g.Problems) != 0 || n.Omitted[tc.reason] != 1 {
				t.Errorf("%d hosts are present, %d eligible, %d failed, %v, omitted are %v", g.Present, len(g.Eligible()), g.Failed, g.Problems, n.Omitted)
			}
			if f := g.Flight; f != nil && (f.Place != 1 || f.InFlight != 0) {
				t.Errorf("the plan is at %+v", f)
			}
			if len(g.Canaries) == 1 && (!g.Canaries[0].Lost || g.Canaries[0].Failed) {
				t.Errorf("the canary is %+v", g.Canaries[0])
			}
			w.fleet.named(first).Failed = Failure{}
			if f := count(list, w.fleet).Groups[0].Flight; f != nil && (f.Place != 1 || f.InFlight != 0) {
				t.Errorf("once it was told to update, the plan is at %+v", f)
			}
			w.fleet.named(first).Told = Event{}
			apart := 0
			for _, server := range []string{"find-1", "find-2", "find-3"} {
				apart += count(list, Shared(w.fleet, server, []string{"find-1", "find-2", "find-3"})).Omitted[tc.reason]
			}
			if apart != 1 {
				t.Errorf("the reports of three servers count the host %d times", apart)
			}
		})
	}
}
