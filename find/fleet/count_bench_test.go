package fleet

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// BenchmarkCount is the count of a tick: a million hosts in twenty groups with plans, in which a tenth is in flight.
func BenchmarkCount(b *testing.B) {
	const hosts, groups = 1_000_000, 20
	table := New(Limits{Words: 100})
	r := &rollout.Rollout{Spec: rollout.RolloutSpec{StartVersion: "17.2.0", TargetVersion: "17.2.1"}}
	ids := make([][]rollout.HostID, groups)
	for i := range hosts {
		e := Entry{Host: rollout.Host{
			ID: rollout.ParseHostID(strconv.Itoa(i)), Hostname: fmt.Sprintf("ip-10-%d-%d.internal", i>>8, i&255), Group: fmt.Sprint("group-", i%groups), Version: "17.2.0", Edition: "oss",
			FirstSeen: noon, LastSeen: noon.Add(time.Hour),
		}}
		table.Put(&e)
		ids[i%groups] = append(ids[i%groups], e.ID)
	}
	plans := make(map[string]*rollout.Index)
	for g := range groups {
		name := fmt.Sprint("group-", g)
		index, err := rollout.NewIndex(ids[g])
		if err != nil {
			b.Fatal(err)
		}
		plans[name] = index
		r.Status.Groups = append(r.Status.Groups, rollout.GroupStatus{
			Name: name, State: rollout.Active, StartTime: noon, Plan: &rollout.PlanReference{HostCount: index.Len(), LastActiveHostIndex: index.Len() / 10},
		})
	}
	for b.Loop() {
		n := rollout.Count(r, table.View(), plans, rollout.CountOptions{Complete: true, Now: noon.Add(time.Hour + time.Minute)})
		if n.Groups[0].Present != hosts/groups || n.Groups[0].Flight.InFlight != hosts/groups/10+1 {
			b.Fatal(n.Groups[0])
		}
	}
}
