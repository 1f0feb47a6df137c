package fleet

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// walking is a table of hosts with random ids, and a list of them in their order.
func walking(hosts int) (*Table, []Entry) {
	table, random := New(Limits{Words: 100}), rand.New(rand.NewPCG(3, 4))
	var all []Entry
	for i := range hosts {
		e := Entry{Host: rollout.Host{
			Hostname: fmt.Sprint("web-", i), Group: fmt.Sprint("g", i%7), Version: rollout.Semver(fmt.Sprintf("17.2.%d", i%3)), Edition: "oss", FirstSeen: noon, LastSeen: noon,
		}}
		for at := range e.ID {
			e.ID[at] = byte(random.Uint32())
		}
		if i%5 == 0 {
			e.Failed = rollout.Failure{Event: rollout.Event{Target: "17.2.9", At: noon}, Error: "it broke", Outcome: noon.Add(time.Second)}
		}
		table.Put(&e)
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return table, all
}

// Whatever a list is of and however long its pages are, each host is on one page, in the order of ids.
func TestAWalkHasEachHostOnce(t *testing.T) {
	table, all := walking(5000)
	for i := 0; i < 1000; i += 3 { // others take their places
		table.Remove(all[i].ID)
	}
	kept := all[:0:0]
	for i, e := range all {
		if i >= 1000 || i%3 != 0 {
			kept = append(kept, e)
		}
	}
	group, version, nothing, empty := "g3", "17.2.1", "nobody named it", ""
	for name, tc := range map[string]struct {
		walk  Walk
		holds func(*Entry) bool
	}{
		"all":              {Walk{}, func(*Entry) bool { return true }},
		"a group":          {Walk{Group: &group}, func(e *Entry) bool { return e.Group == group }},
		"a version":        {Walk{Version: &version}, func(e *Entry) bool { return string(e.Version) == version }},
		"both":             {Walk{Group: &group, Version: &version}, func(e *Entry) bool { return e.Group == group && string(e.Version) == version }},
		"failed":           {Walk{Failed: true}, func(e *Entry) bool { return e.Failed.Target != "" }},
		"failed of one":    {Walk{Failed: true, Group: &group}, func(e *Entry) bool { return e.Failed.Target != "" && e.Group == group }},
		"a match":          {Walk{Match: func(e *Entry) bool { return e.Hostname == "web-17" }}, func(e *Entry) bool { return e.Hostname == "web-17" }},
		"an unknown group": {Walk{Group: &nothing}, func(*Entry) bool { return false }},
		"no group":         {Walk{Group: &empty}, func(e *Entry) bool { return e.Group == "" }},
	} {
		var want []rollout.HostID
		for i := range kept {
			if tc.holds(&kept[i]) {
				want = append(want, kept[i].ID)
			}
		}
		for _, limit := range []int{1, 2, 100, len(kept), len(kept) + 1} {
			if limit == 1 && len(want) > 100 {
				continue // takes long, and shows the same
			}
			walk := tc.walk
			walk.Limit = limit
			var got []rollout.HostID
			for more := true; more; {
				var ids []rollout.HostID
				if ids, more = table.Walk(walk); len(ids) > limit || more && len(ids) != limit {
					t.Fatalf("%s: a page of %d has %d, more: %t", name, limit, len(ids), more)
				}
				if got = append(got, ids...); more {
					walk.After = ids[len(ids)-1]
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s in pages of %d: %d hosts; want %d", name, limit, len(got), len(want))
			}
		}
	}
	if ids, more := table.Walk(Walk{}); ids != nil || more {
		t.Errorf("a page without a limit: %v, %t", ids, more)
	}
}

// A page takes few whole entries out of the table, however many hosts there are.
func TestAPageLooksAtFewHostsWhole(t *testing.T) {
	table, all := walking(50_000)
	looked := 0
	count := func(*Entry) bool { looked++; return true }
	for name, tc := range map[string]struct {
		walk Walk
		most int
	}{
		"the first page": {Walk{Limit: 100}, 5000}, "one in the middle": {Walk{Limit: 100, After: all[25_000].ID}, 5000},
		"the failed ones": {Walk{Limit: 100, Failed: true}, 2500},
	} {
		looked, tc.walk.Match = 0, count
		if ids, more := table.Walk(tc.walk); len(ids) != 100 || !more || looked > tc.most {
			t.Errorf("%s: %d hosts, %d were looked at", name, len(ids), looked)
		}
	}
}
