package fleet

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// What is counted of hosts that are alike, and of those looked up together, is what is counted of each by itself.
func TestHostsAreCountedTogetherAsOneByOne(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	seldom := func() bool { return r.IntN(6) == 0 }
	groups := []string{"dev", "stage", "prod"}
	together := 0
	for range 200 {
		now := noon.Add(time.Duration(r.IntN(3)) * time.Second / 2)
		table := New(Limits{Words: 100})
		put := func(i int) {
			// Just before, at and just after the bounds of what counts.
			ago := func(bound time.Duration) time.Time {
				return now.Add(-bound + time.Duration(r.IntN(5)-2)*time.Second/2 - time.Duration(r.IntN(2)*r.IntN(100))*time.Minute)
			}
			e := Entry{Host: rollout.Host{
				ID: id(i), Hostname: pick("", "a", "b"), Group: pick("", "dev", "stage", "prod", "dve"), Version: rollout.Semver(pick("17.2.0", "17.2.1")),
				FirstSeen: ago(time.Minute), LastSeen: now, Pinned: seldom(), Disabled: seldom(), Unhealthy: seldom(), Cloned: seldom(),
			}}
			if seldom() {
				e.LastSeen = ago(rollout.PresentFor)
			}
			if seldom() {
				e.Told = rollout.Event{Target: "17.2.1", At: ago(30 * time.Minute)}
			}
			if seldom() {
				e.Begun = rollout.Event{Target: "17.2.1", At: ago(30 * time.Minute)}
			}
			if seldom() {
				e.Failed = rollout.Failure{Event: rollout.Event{Target: "17.2.1", At: ago(30 * time.Minute)}, Error: pick("x", "y")}
			}
			table.Put(&e)
		}
		hosts := 1 + r.IntN(400)
		for range 2 * hosts {
			put(r.IntN(hosts))
		}
		table.Forget(func(e *Entry) bool { return e.ID[3]%9 == 1 })
		ro, plans := &rollout.Rollout{Spec: rollout.RolloutSpec{StartVersion: "17.2.0", TargetVersion: "17.2.1"}}, make(map[string]*rollout.Index)
		if seldom() {
			ro.Spec.Unmatched = rollout.Hold
		}
		for _, name := range groups {
			g := rollout.GroupStatus{Name: name, State: []rollout.State{rollout.Unstarted, rollout.Canarying, rollout.Active}[r.IntN(3)], StartTime: now.Add(-time.Hour)}
			if seldom() {
				g.Canaries = []rollout.Canary{{HostID: id(r.IntN(hosts)).String()}}
			}
			if r.IntN(2) == 0 {
				index, err := rollout.NewIndex(slices.Collect(func(yield func(rollout.HostID) bool) {
					for _, i := range r.Perm(hosts + 10)[:r.IntN(hosts+10)] {
						if !yield(id(i)) {
							return
						}
					}
				}))
				if err != nil {
					t.Fatal(err)
				}
				plans[name] = index
				g.ConfigMaxInFlight = &rollout.Share{N: r.IntN(50)}
				g.Plan = &rollout.PlanReference{HostCount: index.Len(), LastActiveHostIndex: r.IntN(index.Len()+1) - 1}
			}
			ro.Status.Groups = append(ro.Status.Groups, g)
		}
		opts := rollout.CountOptions{Complete: !seldom(), Now: now, Overrides: make(rollout.Overrides)}
		for range r.IntN(3) {
			held := id(r.IntN(hosts + 1))
			opts.Overrides[held.String()] = rollout.Override{Action: rollout.HoldHost}
		}
		got := rollout.Count(ro, table.View(), plans, opts)
		want := rollout.Count(ro, struct{ rollout.Fleet }{table.View()}, plans, opts)
		for i := range want.Groups {
			together += want.Groups[i].Present
			a, b := got.Groups[i].Eligible(), want.Groups[i].Eligible()
			for _, ids := range [][]rollout.HostID{a, b} {
				slices.SortFunc(ids, func(a, b rollout.HostID) int { return bytes.Compare(a[:], b[:]) })
			}
			if !slices.Equal(a, b) {
				t.Errorf("eligible are %v\n%v", a, b)
			}
			for _, n := range []*rollout.GroupCounts{&got.Groups[i], &want.Groups[i]} {
				n.Eligible, n.Look = nil, nil
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("together: %+v\none by one: %+v", got, want)
		}
	}
	if together < 1000 {
		t.Errorf("%d hosts were counted", together)
	}
}
