package fleet

import (
	"iter"
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
		for id, r := range v.table.hosts {
			v.look()
			v.table.host(id, &r, &h)
			if !yield(&h) {
				return
			}
		}
	}
}

func (v *View) look() {
	v.looked++
	pause(v.looked)
}

// Host implements rollout.Fleet.
func (v *View) Host(id rollout.HostID) *rollout.Host {
	v.look()
	r, there := v.table.hosts[id]
	if !there {
		return nil
	}
	v.table.host(id, &r, &v.host)
	return &v.host
}

// Alike implements rollout.LargeFleet: plain hosts come last, grouped by group and version.
func (v *View) Alike(now time.Time) iter.Seq2[*rollout.Host, int] {
	return func(yield func(*rollout.Host, int) bool) {
		first, last := rollout.PlainTimes(now)
		joined, heard := seconds(first), seconds(last.Add(time.Second-1)) // times are kept in whole seconds
		type kind struct{ group, version uint16 }
		type some struct {
			one  rollout.HostID
			many int
		}
		places := make(map[kind]int)
		var kinds []some
		var h rollout.Host
		for id, r := range v.table.hosts {
			v.look()
			present := r.firstSeen <= joined && r.lastSeen >= heard
			if present && r.flags == 0 && r.told == 0 && r.begun == 0 {
				place, there := places[kind{r.group, r.version}]
				if !there {
					place = len(kinds)
					places[kind{r.group, r.version}] = place
					kinds = append(kinds, some{one: id})
				}
				kinds[place].many++
				continue
			}
			v.table.host(id, &r, &h)
			if !yield(&h, 1) {
				return
			}
		}
		for _, k := range kinds {
			r := v.table.hosts[k.one]
			if v.table.host(k.one, &r, &h); !yield(&h, k.many) {
				return
			}
		}
	}
}
