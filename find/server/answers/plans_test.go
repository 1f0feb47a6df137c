package answers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// The number of a rollout means nothing in the plan of another.
func TestAPlanOfAnotherRolloutIsNone(t *testing.T) {
	kept, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	p := NewPlans(kept)
	start := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	sound := rollout.Plan{Group: "prod", StartTime: start, Version: "17.2.1", Schedule: rollout.Regular, Hosts: []rollout.HostID{rollout.ParseHostID(hostUUID(1)), rollout.ParseHostID(hostUUID(2))}}
	reference := func() *rollout.Rollout {
		r := &rollout.Rollout{Spec: rollout.RolloutSpec{TargetVersion: "17.2.1"}}
		r.Status.Groups = []rollout.GroupStatus{{Name: "prod", State: rollout.Active, Plan: &rollout.PlanReference{StartTime: start, HostCount: 2}}}
		return r
	}
	write := func(plan rollout.Plan) {
		t.Helper()
		pages, err := plan.Pages(func() uint64 { return 1 })
		if err != nil {
			t.Fatal(err)
		}
		for page := range pages { // it has one
			before, err := kept.Get(t.Context(), rollout.PlanKey("prod"))
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			if _, err := kept.Put(t.Context(), rollout.PlanKey("prod"), page.Value, before.Revision); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		edit func(*rollout.Plan)
		want string
	}{
		"of another group":   {func(p *rollout.Plan) { p.Group = "dev" }, "another plan"},
		"of another version": {func(p *rollout.Plan) { p.Version = "17.2.2" }, "another plan"},
		"of another start":   {func(p *rollout.Plan) { p.StartTime = start.Add(time.Second) }, "another plan"},
		"with another host":  {func(p *rollout.Plan) { p.Hosts = append(slices.Clone(p.Hosts), rollout.ParseHostID(hostUUID(3))) }, "another plan"},
		"with a host twice":  {func(p *rollout.Plan) { p.Hosts = []rollout.HostID{p.Hosts[0], p.Hosts[0]} }, "appears twice"},
		"of this rollout":    {func(*rollout.Plan) {}, ""},
	} {
		plan := sound
		tc.edit(&plan)
		write(plan)
		found, broken, err := p.Load(t.Context(), reference())
		if err != nil {
			t.Fatal(err)
		}
		if tc.want == "" && found["prod"].Len() != 2 || tc.want != "" && (broken["prod"] == nil || !strings.Contains(broken["prod"].Error(), tc.want) || found["prod"] != nil) {
			t.Errorf("%s: %v, %v", name, found["prod"], broken["prod"])
		}
		p.loaded = nil
	}
	// What was read once is not read again, as long as it is needed.
	write(sound)
	counted := &countingStore{Store: kept}
	p.store = counted
	for range 3 {
		if _, _, err := p.Load(t.Context(), reference()); err != nil {
			t.Fatal(err)
		}
	}
	if counted.gets != 1 {
		t.Errorf("it was read %d times", counted.gets)
	}
	done := reference()
	done.Status.Groups[0].State = rollout.Done
	if _, _, err := p.Load(t.Context(), done); err != nil || len(p.loaded) > 0 {
		t.Errorf("the plan of a group that is done is kept: %v, %v", p.loaded, err)
	}
	if _, broken, err := p.Load(t.Context(), nil); err != nil || len(broken) > 0 {
		t.Errorf("no rollout: %v, %v", broken, err)
	}
}

type countingStore struct {
	store.Store
	gets int
}

func (s *countingStore) Get(ctx context.Context, key string) (store.Item, error) {
	s.gets++
	return s.Store.Get(ctx, key)
}

func hostUUID(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }

// A store that is away keeps nobody from the plans that are in memory.
func TestAStoreThatIsAwayTakesNoPlanFromMemory(t *testing.T) {
	kept, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	r := &rollout.Rollout{Spec: rollout.RolloutSpec{TargetVersion: "17.2.1"}}
	counted := &countingStore{Store: kept}
	p := NewPlans(counted)
	for i, name := range []string{"a", "b", "c", "d"} {
		plan := &rollout.Plan{Group: name, StartTime: start, Version: "17.2.1", Schedule: rollout.Regular, Hosts: []rollout.HostID{rollout.ParseHostID(hostUUID(i))}}
		r.Status.Groups = append(r.Status.Groups, rollout.GroupStatus{Name: name, State: rollout.Active, Plan: &rollout.PlanReference{StartTime: start, HostCount: 1}})
		if name == "b" || name == "d" {
			p.Keep(r, &Prepared{plan: plan})
		}
	}
	kept.Close()
	for range 2 {
		counted.gets = 0
		found, broken, err := p.Load(t.Context(), r)
		if err == nil || len(found) != 2 || found["b"] == nil || found["d"] == nil || len(broken) != 2 || broken["a"] == nil || broken["c"] == nil {
			t.Errorf("%v: %v, broken: %v", err, found, broken)
		}
		if counted.gets != 1 {
			t.Errorf("a store that is away is asked %d times", counted.gets)
		}
	}
}
