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
	places []uint32                  // of records + 1, by number; 0 if the table has no host of the number
	vacant map[uint32]rollout.HostID // the hosts of the numbers without a record, as far as the roll names them
	absent map[rollout.HostID]uint32 // the reverse of vacant, plus 1
}

// arrive returns the number + 1 of a host that is new in the table, and removes it from the vacant ones.
func (r *roll) arrive(id rollout.HostID, at uint32) (number uint32) {
	number, there := r.absent[id]
	if !there {
		return 0
	}
	delete(r.absent, id)
	delete(r.vacant, number-1)
	r.places[number-1] = at + 1
	return number
}

// leave removes a host from the roll; number is the host's number plus 1.
func (r *roll) leave(id rollout.HostID, number uint32) {
	if number == 0 {
		return
	}
	r.places[number-1] = 0
	r.keepVacant(id, number)
}

func (r *roll) keepVacant(id rollout.HostID, number uint32) {
	if r.vacant == nil {
		r.vacant, r.absent = make(map[uint32]rollout.HostID), make(map[rollout.HostID]uint32)
	}
	if old, there := r.vacant[number-1]; there && r.absent[old] == number {
		delete(r.absent, old)
	}
	r.vacant[number-1], r.absent[id] = id, number
}

// Enrolled returns how many numbers the roll has, and how many of them belong to hosts that the table does not have.
func (t *Table) Enrolled() (numbers uint32, vacant int) {
	return uint32(len(t.roll.places)), len(t.roll.vacant)
}

// Vacant returns numbers of hosts that the table does not have, at most limit.
func (t *Table) Vacant(limit int) (numbers []uint32) {
	for number := range t.roll.vacant {
		if len(numbers) == limit {
			break
		}
		numbers = append(numbers, number)
	}
	return numbers
}

// Page returns the hosts of a page of the roll, in the order of their numbers; empty after the last page.
func (t *Table) Page(page uint32) (hosts []rollout.HostID) {
	first := page * RollPage
	for number := first; number < min(first+RollPage, uint32(len(t.roll.places))); number++ {
		id := t.roll.vacant[number]
		if place := t.roll.places[number]; place != 0 {
			id = t.packed(place - 1).id
		}
		hosts = append(hosts, id)
	}
	return hosts
}

// Enrol gives a number to a host. The host that had the number before loses it.
func (t *Table) Enrol(number uint32, id rollout.HostID) {
	for uint32(len(t.roll.places)) <= number {
		t.roll.places = append(t.roll.places, 0)
	}
	if place := t.roll.places[number]; place != 0 {
		r := t.packed(place - 1)
		if r.id == id {
			return
		}
		r.number, t.roll.places[number] = 0, 0
	}
	slot, there := t.search(id)
	if !there {
		t.roll.keepVacant(id, number+1)
		return
	}
	if old, was := t.roll.vacant[number]; was {
		delete(t.roll.vacant, number)
		delete(t.roll.absent, old)
	}
	at := t.slots[slot] - 1
	if r := t.packed(at); r.number == 0 {
		r.number, t.roll.places[number] = number+1, at+1
	}
}

// Unroll takes all numbers back: another store has other numbers.
func (t *Table) Unroll() {
	t.roll = roll{}
	for at := range t.count {
		t.packed(uint32(at)).number = 0
	}
}

// At fills in the entry of the host of a number; it is false if the table has none.
func (t *Table) At(number uint32, into *Entry) bool {
	if uint64(number) >= uint64(len(t.roll.places)) || t.roll.places[number] == 0 {
		return false
	}
	t.entry(t.roll.places[number]-1, into)
	return true
}

// Hear marks a host: it has reported since the time of the last Quiet.
func (t *Table) Hear(id rollout.HostID) {
	if slot, there := t.search(id); there {
		t.packed(t.slots[slot] - 1).flags |= heard
	}
}

// Heard calls f for each marked host from a place on, until it returns false, and returns the place after the last one.
// For a host without a number enrolled is false.
func (t *Table) Heard(place int, f func(id *rollout.HostID, number uint32, enrolled bool, sequence uint32) bool) (next int) {
	return t.from(place, func(at uint32) bool {
		r := t.packed(at)
		return r.flags&heard == 0 || f(&r.id, max(r.number, 1)-1, r.number != 0, r.sequence)
	})
}

// Quiet removes the marks of hosts that have not reported since a time, which is in whole seconds.
func (t *Table) Quiet(since time.Time) {
	limit := seconds(since)
	t.from(0, func(at uint32) bool {
		if r := t.packed(at); r.lastSeen < limit {
			r.flags &^= heard
		}
		return true
	})
}
