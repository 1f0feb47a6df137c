package fleet

import (
	"iter"
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// View reads a table that nobody writes to meanwhile. The host that it returns is valid until the
// next call.
type View struct {
	table  *Table
	host   rollout.Host
	looked int
}

// View returns a View for one goroutine.
func (t *Table) View() *View { return &View{table: t} }

var _ rollout.LargeFleet = (*View)(nil)

// All implements rollout.Fleet.
func (v *View) All() iter.Seq[*rollout.Host] {
	return func(yield func(*rollout.Host) bool) {
		var h rollout.Host
		for at := range v.table.count {
			pause(at)
			v.table.host(uint32(at), v.table.packed(uint32(at)), &h)
			if !yield(&h) {
				return
			}
		}
	}
}

// Host implements rollout.Fleet.
func (v *View) Host(id rollout.HostID) *rollout.Host {
	v.looked++
	pause(v.looked)
	slot, there := v.table.search(id)
	if !there {
		return nil
	}
	at := v.table.slots[slot] - 1
	r := v.table.packed(at)
	v.table.host(at, r, &v.host)
	return &v.host
}

// Alike implements rollout.LargeFleet: plain hosts come last, grouped by group and version. It reads only their
// records, in the order of the memory.
func (v *View) Alike(now time.Time) iter.Seq2[*rollout.Host, int] {
	return func(yield func(*rollout.Host, int) bool) {
		first, last := rollout.PlainTimes(now)
		joined, heard := seconds(first), seconds(last.Add(time.Second-1)) // times are kept in whole seconds
		type kind struct{ group, version uint16 }
		type some struct{ one, many int }
		places := make(map[kind]int)
		var kinds []some
		var h rollout.Host
		for at := range v.table.count {
			pause(at)
			r := v.table.packed(uint32(at))
			present := r.firstSeen <= joined && r.lastSeen >= heard
			if present && r.flags == 0 && r.told == 0 && r.begun == 0 {
				place, there := places[kind{r.group, r.version}]
				if !there {
					place = len(kinds)
					places[kind{r.group, r.version}] = place
					kinds = append(kinds, some{one: at})
				}
				kinds[place].many++
				continue
			}
			v.table.host(uint32(at), r, &h)
			if !yield(&h, 1) {
				return
			}
		}
		for _, k := range kinds {
			v.table.host(uint32(k.one), v.table.packed(uint32(k.one)), &h)
			if !yield(&h, k.many) {
				return
			}
		}
	}
}

// together is how many look-ups run at once. One after the other, each would wait for memory, several times.
const together = 32

// Hosts implements rollout.LargeFleet.
func (v *View) Hosts(ids []rollout.HostID) iter.Seq[*rollout.Host] {
	return func(yield func(*rollout.Host) bool) {
		t := v.table
		var places [together]uint32
		for some := range slices.Chunk(ids, together) {
			for i, id := range some {
				places[i] = t.slots[t.first(id)]
			}
			for i, id := range some {
				// Most are found at the first slot.
				if places[i] == 0 || t.packed(places[i]-1).id == id {
					continue
				}
				slot, _ := t.search(id)
				places[i] = t.slots[slot]
			}
			for _, place := range places[:len(some)] {
				v.looked++
				pause(v.looked)
				h := &v.host
				if place == 0 {
					h = nil
				} else {
					t.host(place-1, t.packed(place-1), h)
				}
				if !yield(h) {
					return
				}
			}
		}
	}
}
