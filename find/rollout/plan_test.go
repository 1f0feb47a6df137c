package rollout

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func planOf(n int) *Plan {
	r := NewRollout(nil, versionWith(Enabled, Regular), monday)
	return newPlan(r, &GroupStatus{Name: "prod"}, someHosts(n), monday)
}

func someHosts(n int) []HostID {
	hosts := make([]HostID, n)
	for i := range hosts {
		hosts[i] = ParseHostID(hostID(fmt.Sprint(i)))
	}
	return hosts
}

func idsOf(names ...string) (ids []HostID) {
	for _, name := range names {
		ids = append(ids, ParseHostID(name))
	}
	return ids
}

func namesOf(p *Plan) (names []string) {
	for _, id := range p.Hosts {
		names = append(names, id.String())
	}
	return names
}

func TestAPlansOrderIsByLotAndCanBeComputedAgain(t *testing.T) {
	r := NewRollout(nil, versionWith(Enabled, Regular), monday)
	hosts := someHosts(1000)
	g := &GroupStatus{Name: "prod"}
	first := newPlan(r, g, hosts, monday)
	shuffled := slices.Clone(hosts)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if again := newPlan(r, g, shuffled, monday); !reflect.DeepEqual(again, first) {
		t.Error("the order depends on that of the hosts")
	}
	sorted := slices.Clone(first.Hosts)
	slices.SortFunc(sorted, func(a, b HostID) int { return bytes.Compare(a[:], b[:]) })
	if n := len(slices.Compact(sorted)); n != 1000 {
		t.Errorf("the plan has %d hosts", n)
	}
	other := versionWith(Enabled, Regular)
	other.Spec.Agents.TargetVersion = "17.2.2"
	for name, p := range map[string]*Plan{
		"another start":   newPlan(r, g, hosts, monday.Add(time.Second)),
		"another group":   newPlan(r, &GroupStatus{Name: "stage"}, hosts, monday),
		"another version": newPlan(NewRollout(nil, other, monday), g, hosts, monday),
		"another rollout": newPlan(NewRollout(nil, versionWith(Enabled, Regular), monday.Add(time.Second)), g, hosts, monday),
	} {
		same := 0
		for i := range p.Hosts {
			if p.Hosts[i] == first.Hosts[i] {
				same++
			}
		}
		if same > 20 {
			t.Errorf("%s: %d of 1000 hosts have the same place", name, same)
		}
	}
	// By lot: neither end of the list of hosts has the better places.
	sum := 0
	for place, id := range first.Hosts {
		if slices.Contains(hosts[:500], id) {
			sum += place
		}
	}
	if mean := float64(sum) / 500; math.Abs(mean-499.5) > 60 {
		t.Errorf("the mean place of the first half is %.0f", mean)
	}
}

func TestTheIndexFindsEveryPlace(t *testing.T) {
	hosts := append(namesOf(planOf(5000)), "278576220453-i-01234567890abcdef", "a host", strings.ToUpper(hostID("in capitals")))
	x, err := NewIndex(idsOf(hosts...))
	if err != nil {
		t.Fatal(err)
	}
	for i, host := range hosts {
		for _, spelling := range []string{host, strings.ToLower(host)} {
			if place, there := x.Place(ParseHostID(spelling)); (place != i || !there) && (spelling == host || len(host) == 36) {
				t.Fatalf("host %s is at %d, %v; want %d", spelling, place, there, i)
			}
			for _, last := range []int{-1, 0, i - 1, i, i + 1, i / 2, 2 * i} {
				if place, there := x.Place(ParseHostID(spelling)); x.Within(ParseHostID(spelling), last) != (there && place <= last) {
					t.Fatalf("host %s at %d, %v, is within %d: %v", spelling, place, there, last, there && place > last)
				}
			}
		}
	}
	for i := range 5000 {
		if place, there := x.Place(ParseHostID(hostID(fmt.Sprint("stranger ", i)))); there {
			t.Fatalf("a stranger has place %d", place)
		}
		if x.Within(ParseHostID(hostID(fmt.Sprint("stranger ", i))), len(hosts)) {
			t.Fatal("a stranger is within all")
		}
	}
	if _, there := (*Index)(nil).Place(HostID{}); there || (*Index)(nil).Within(HostID{}, 1) {
		t.Error("there is a host in no plan")
	}
	if empty, err := NewIndex(nil); err != nil || empty.Len() != 0 {
		t.Errorf("an empty plan: %v", err)
	} else if _, there := empty.Place(HostID{}); there {
		t.Error("there is a host in an empty plan")
	}
	if _, err := NewIndex(idsOf(hosts[0], hosts[1], strings.ToUpper(hosts[0]))); err == nil || !strings.Contains(err.Error(), "appears twice") {
		t.Errorf("a host with two places: %v", err)
	}
}

// Who may be next, in a plan of ten hosts with two in flight.
func TestTheFlightOfAPlan(t *testing.T) {
	for _, tc := range []struct {
		name     string
		index    int
		set      func(w *world, hosts []string)
		place    int
		inFlight int
		silent   int
		down     int
	}{
		{"nobody has had a turn", -1, nil, 1, 0, 0, 0},
		{"two are in flight", 1, func(w *world, h []string) { w.poll(h[0]); w.poll(h[1]) }, 1, 2, 0, 0},
		{"one is silent", 1, func(w *world, h []string) { w.poll(h[0]) }, 1, 2, 1, 0},
		{"one is done", 1, func(w *world, h []string) { w.poll(h[0]); w.update(h[1], "17.2.1") }, 2, 1, 0, 0},
		{"one has failed", 1, func(w *world, h []string) { w.poll(h[0]); w.fail(h[0]) }, 2, 1, 1, 0},
		{"one was pinned", 1, func(w *world, h []string) { w.fleet.named(h[0]).Pinned = true }, 2, 1, 1, 0},
		{"both are done", 1, func(w *world, h []string) { w.update(h[0], "17.2.1"); w.update(h[1], "17.2.1") }, 3, 0, 0, 0},
		{"the next ones are on the target already", 1, func(w *world, h []string) {
			w.update(h[0], "17.2.1")
			w.update(h[2], "17.2.1")
			w.update(h[3], "17.2.1")
		}, 4, 1, 1, 0},
		{"one is silent and gone", 1, func(w *world, h []string) { w.fleet.named(h[0]).LastSeen = w.now.Add(-26 * time.Minute) }, 2, 1, 1, 0},
		{"one that comes later is gone", -1, func(w *world, h []string) { w.fleet.named(h[0]).LastSeen = w.now.Add(-26 * time.Minute) }, 1, 0, 0, 0},
		{"the agent of one that comes later is down", -1, func(w *world, h []string) { w.fleet.named(h[9]).Unhealthy = true }, 0, 0, 0, 1},
		{"the agents of two that come later are down", -1, func(w *world, h []string) { w.fleet.named(h[9]).Unhealthy = true; w.fleet.named(h[8]).Unhealthy = true }, -1, 0, 0, 2},
		{"the agent of the next one is down", -1, func(w *world, h []string) { w.fleet.named(h[0]).Unhealthy = true }, 1, 0, 0, 1},
		{"the agent of one in flight is down", 0, func(w *world, h []string) { w.poll(h[0]); w.fleet.named(h[0]).Unhealthy = true }, 1, 1, 0, 0},
		{"more are in flight than there should be", 5, nil, 5, 6, 6, 0},
		{"all have had their turn", 9, func(w *world, h []string) {
			for _, h := range h {
				w.update(h, "17.2.1")
			}
		}, 9, 0, 0, 0},
	} {
		w := newWorld(t, regular("{name: a, "+everyDay+", max_in_flight: 2, max_failed_before_halt: 100%, max_timeout_before_halt: 0}"))
		w.add("a", 10, "17.2.0")
		w.begin("Mon 10:00")
		w.tick()
		g := w.group("a")
		g.Plan.LastActiveHostIndex = tc.index
		if tc.set != nil {
			tc.set(w, w.inOrder("a"))
		}
		f := w.counts().Groups[0].Flight
		if f.Place != tc.place || f.InFlight != tc.inFlight || f.Silent != tc.silent || f.Unhealthy != tc.down || f.Limit != 2 || f.Hosts != 10 {
			t.Errorf("%s: %+v; want %+v", tc.name, f, tc)
		}
		// An answer that comes too early from a server that does not know all hosts.
		w.counted = false
		if early := w.counts().Groups[0]; early.TimedOut > 0 {
			t.Errorf("%s: %d have timed out before the counts are complete", tc.name, early.TimedOut)
		}
	}
}

// A host of a plan or a canary that names another group is told what that group is
// told. It holds no place in flight any more, and is counted where it is.
func TestAHostThatNamesAnotherGroupIsWithdrawn(t *testing.T) {
	w := newWorld(t, regular("{name: a, "+everyDay+", max_in_flight: 1}", "{name: b, days: ['*'], start_hour: 20}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.now = w.now.Add(10 * time.Second)
	w.tick()
	first, second := w.inOrder("a")[0], w.inOrder("a")[1]
	w.poll(first)
	w.wantTold("a", second, "17.2.1")
	w.fleet.named(first).Group = "b"
	w.now = w.now.Add(10 * time.Second)
	w.tick()
	if a := w.find(second); !a.AutoUpdate {
		t.Error("the place of the host is not given to the next one")
	}
	if g := w.group("a"); g.TimedOutCount != 0 || g.FailedCount != 0 {
		t.Errorf("it is counted as %d timed out and %d failed", g.TimedOutCount, g.FailedCount)
	}
	w = newWorld(t, regular("{name: a, "+everyDay+", canary_count: 1}", "{name: b, days: ['*'], start_hour: 20}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.fleet.named(w.canaryNames("a")[0]).Group = "b"
	w.tick()
	w.want("canary?Stalled unstarted")
}
