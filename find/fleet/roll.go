package fleet

import (
	"time"

	"teleport-update/find/rollout"
)

// RollPage is how many hosts a page of the roll has.
const RollPage = 1024

// roll gives hosts numbers that all servers of a store agree on, so that a set of a million hosts is a list of small
// gaps. The owner of the table keeps the pages of the roll, too: a number belongs to one host only, until a page gives
// it to another.
type roll struct {
	hosts  []rollout.HostID          // by number
	absent map[rollout.HostID]uint32 // the numbers of hosts that the table does not have
}

func (r *roll) clear() { r.hosts, r.absent = nil, make(map[rollout.HostID]uint32) }

// arrive returns the number + 1 of a host that is new in the table; 0 for none.
func (r *roll) arrive(id rollout.HostID) (number uint32) {
	number, there := r.absent[id]
	if !there {
		return 0
	}
	delete(r.absent, id)
	return number + 1
}

// leave notes that the table does not have a host any more; number is the host's number plus 1.
func (r *roll) leave(id rollout.HostID, number uint32) {
	if number != 0 {
		r.absent[id] = number - 1
	}
}

// Enrolled returns how many numbers the roll has, and how many of them belong to hosts that the table does not have.
func (t *Table) Enrolled() (numbers uint32, vacant int) {
	return uint32(len(t.roll.hosts)), len(t.roll.absent)
}

// Vacant returns numbers of hosts that the table does not have, at most limit.
func (t *Table) Vacant(limit int) (numbers []uint32) {
	for _, number := range t.roll.absent {
		if len(numbers) == limit {
			break
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// Page returns the hosts of a page of the roll, in the order of their numbers; empty after the last page.
func (t *Table) Page(page uint32) []rollout.HostID {
	all := t.roll.hosts
	first := min(int(page)*RollPage, len(all))
	return all[first:min(first+RollPage, len(all))]
}

// Enrol gives a number to a host. The host that had the number before loses it.
func (t *Table) Enrol(number uint32, id rollout.HostID) {
	for uint32(len(t.roll.hosts)) <= number {
		t.roll.hosts = append(t.roll.hosts, rollout.HostID{})
	}
	before := t.roll.hosts[number]
	if before == id {
		return
	}
	t.roll.hosts[number] = id
	if r, there := t.hosts[before]; there && r.number == number+1 {
		r.number = 0
		t.hosts[before] = r
	}
	if old, absent := t.roll.absent[before]; absent && old == number {
		delete(t.roll.absent, before)
	}
	r, there := t.hosts[id]
	switch {
	case !there:
		t.roll.absent[id] = number
	case r.number == 0:
		r.number = number + 1
		t.hosts[id] = r
	}
}

// Unroll takes all numbers back: another store has other numbers.
func (t *Table) Unroll() {
	t.roll.clear()
	for id, r := range t.hosts {
		r.number = 0
		t.hosts[id] = r
	}
}

// At fills in the entry of the host of a number; it is false if the table has none.
func (t *Table) At(number uint32, into *Entry) bool {
	if uint64(number) >= uint64(len(t.roll.hosts)) {
		return false
	}
	id := t.roll.hosts[number]
	return id != rollout.HostID{} && t.Get(id, into)
}

// Hear marks a host: it has reported since the time of the last Quiet.
func (t *Table) Hear(id rollout.HostID) {
	if r, there := t.hosts[id]; there {
		r.flags |= heard
		t.hosts[id] = r
	}
}

// Heard calls f for each marked host, until it returns false. For a host without a number enrolled is false.
func (t *Table) Heard(f func(id *rollout.HostID, number uint32, enrolled bool, sequence uint32) bool) {
	looked := 0
	for id, r := range t.hosts {
		looked++
		pause(looked)
		if r.flags&heard != 0 && !f(&id, max(r.number, 1)-1, r.number != 0, r.sequence) {
			return
		}
	}
}

// Quiet removes the marks of hosts that have not reported since a time, which is in whole seconds.
func (t *Table) Quiet(since time.Time) {
	limit, looked := seconds(since), 0
	for id, r := range t.hosts {
		looked++
		pause(looked)
		if r.flags&heard != 0 && r.lastSeen < limit {
			r.flags &^= heard
			t.hosts[id] = r
		}
	}
}
