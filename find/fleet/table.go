package fleet

import (
	"hash/maphash"
	"math"
	"time"

	"teleport-update/find/rollout"
)

// chunk is how many records are allocated at once: one growing list would exist twice while it
// grows.
const chunk = 4096

// Table holds the hosts. Several goroutines must not use it at once, unless all only read, each by
// a View of its own.
type Table struct {
	limits   Limits
	chunks   []*[chunk]packed
	count    int
	slots    []uint32 // places of records + 1; 0 for a free slot
	seed     maphash.Seed
	names    names
	failures map[uint32]failure
	roll     roll

	groups, tokens, versions, editions, archs, errors *words
}

// New returns a table without hosts.
func New(limits Limits) *Table {
	t := &Table{limits: limits, seed: maphash.MakeSeed()}
	t.clear()
	return t
}

func (t *Table) clear() {
	t.chunks, t.count, t.slots = nil, 0, make([]uint32, 64)
	t.names, t.failures = names{}, make(map[uint32]failure)
	limit, named := t.limits.Words, t.limits.Named
	if named == nil {
		named = func(string) bool { return false }
	}
	t.groups, t.versions = newWords(limit, Other, named), newWords(limit, Other, named)
	t.editions, t.archs = newWords(limit, Other, isEdition), newWords(limit, Other, isArch)
	t.errors = newWords(limit, manyErrors, func(string) bool { return false })
	// Only people make tokens, never more than there is room for.
	t.tokens = newWords(math.MaxUint16, Other, func(string) bool { return true })
}

// Len returns how many hosts there are.
func (t *Table) Len() int { return t.count }

func (t *Table) packed(at uint32) *packed { return &t.chunks[at/chunk][at%chunk] }

// search returns the slot of a host, or the free slot for it. The hash has a seed of its own:
// hosts that choose their UUIDs cannot make all searches long.
func (t *Table) search(id rollout.HostID) (slot int, there bool) {
	mask := len(t.slots) - 1
	for slot = t.first(id); ; slot = (slot + 1) & mask {
		at := t.slots[slot]
		if at == 0 {
			return slot, false
		}
		if t.packed(at-1).id == id {
			return slot, true
		}
	}
}

// first returns the slot at which the search for a host begins.
func (t *Table) first(id rollout.HostID) int {
	return int(maphash.Bytes(t.seed, id[:])) & (len(t.slots) - 1)
}

// Get fills in the entry of a host; it is false if the table does not have the host.
func (t *Table) Get(id rollout.HostID, into *Entry) bool {
	slot, there := t.search(id)
	if !there {
		return false
	}
	t.entry(t.slots[slot]-1, into)
	return true
}

func (t *Table) entry(at uint32, into *Entry) {
	r := t.packed(at)
	t.host(at, r, &into.Host)
	into.Secret, into.Token, into.Sequence, into.Boots = r.secret, t.tokens.at(r.token), r.sequence, r.boots
	into.Floor, into.Alternated, into.Burst, into.Revision = r.floor, moment(r.alternated), r.burst, r.revision
}

func (t *Table) host(at uint32, r *packed, into *rollout.Host) {
	*into = rollout.Host{
		ID: r.id, UpdaterID: r.updater, Hostname: t.names.at(r.name), Group: t.groups.at(r.group),
		Version: rollout.Semver(t.versions.at(r.version)),
		Edition: t.editions.at(r.edition), Arch: t.archs.at(r.arch),
		Pinned: r.flags&pinned != 0, Disabled: r.flags&disabled != 0, Unhealthy: r.flags&unhealthy != 0, Cloned: r.flags&cloned != 0,
		BelowMinimum: r.flags&belowMinimum != 0, Unsigned: r.flags&unsigned != 0,
		FirstSeen: moment(r.firstSeen), LastSeen: moment(r.lastSeen),
		Told:  rollout.Event{Target: rollout.Semver(t.versions.at(r.told)), At: moment(r.toldAt)},
		Begun: rollout.Event{Target: rollout.Semver(t.versions.at(r.begun)), At: moment(r.begunAt)},
	}
	if r.flags&hasFailed != 0 {
		f := t.failures[at]
		into.Failed = rollout.Failure{
			Event: rollout.Event{Target: rollout.Semver(t.versions.at(f.target)), At: moment(f.at)},
			Error: t.errors.at(f.text), Outcome: time.Unix(0, f.outcome).UTC(), Until: moment(f.until),
		}
	}
}

// Put keeps an entry, and replaces the one with the same id. Words without room become Other.
func (t *Table) Put(e *Entry) {
	at, there := t.placeOf(e.ID)
	var before packed
	if there {
		before = *t.packed(at)
	}
	r := packed{
		id: e.ID, updater: e.UpdaterID, secret: e.Secret, revision: e.Revision, boots: e.Boots, sequence: e.Sequence, floor: e.Floor,
		firstSeen: seconds(e.FirstSeen), lastSeen: seconds(e.LastSeen), toldAt: seconds(e.Told.At), begunAt: seconds(e.Begun.At),
		alternated: seconds(e.Alternated),
		flags: flag(e.Pinned, pinned) | flag(e.Disabled, disabled) | flag(e.Unhealthy, unhealthy) | flag(e.Cloned, cloned) |
			flag(e.BelowMinimum, belowMinimum) | flag(e.Unsigned, unsigned),
		burst: e.Burst,

		group: t.groups.exchange(before.group, e.Group), token: t.tokens.exchange(before.token, e.Token),
		version: t.versions.exchange(before.version, string(e.Version)),
		told:    t.versions.exchange(before.told, string(e.Told.Target)),
		begun:   t.versions.exchange(before.begun, string(e.Begun.Target)),
		edition: t.editions.exchange(before.edition, e.Edition), arch: t.archs.exchange(before.arch, e.Arch),
		name: t.names.replace(before.name, e.Hostname),
	}
	if t.putFailure(at, e.Failed) {
		r.flags |= hasFailed
	}
	r.number, r.flags = before.number, r.flags|before.flags&heard
	if !there {
		r.number = t.roll.arrive(e.ID, at)
	}
	*t.packed(at) = r
	if t.count*4 > len(t.slots)*3 {
		t.grow()
	}
	if t.names.wasted > t.names.size()/2 && t.names.wasted > 1<<20 {
		t.Forget(func(*Entry) bool { return false })
	}
}

// placeOf returns the place of the record of a host. A missing record is made.
func (t *Table) placeOf(id rollout.HostID) (at uint32, there bool) {
	slot, there := t.search(id)
	if there {
		return t.slots[slot] - 1, true
	}
	at = uint32(t.count)
	if t.count%chunk == 0 {
		t.chunks = append(t.chunks, new([chunk]packed))
	}
	t.count++
	t.slots[slot] = at + 1
	return at, false
}

// putFailure keeps the failure of the record in a place, and reports whether there is one.
func (t *Table) putFailure(at uint32, f rollout.Failure) bool {
	before := t.failures[at] // zeros if there is no failure
	target, text := t.versions.exchange(before.target, string(f.Target)), t.errors.exchange(before.text, f.Error)
	if f.Target == "" {
		t.errors.drop(text)
		delete(t.failures, at)
		return false
	}
	t.failures[at] = failure{outcome: f.Outcome.UnixNano(), at: seconds(f.At), until: seconds(f.Until), target: target, text: text}
	return true
}

// Remove removes one host; it does nothing for an unknown id. The host in the last place moves into the free place.
func (t *Table) Remove(id rollout.HostID) {
	slot, there := t.search(id)
	if !there {
		return
	}
	at, last := t.slots[slot]-1, uint32(t.count-1)
	t.roll.leave(id, t.packed(at).number)
	t.dropWords(at)
	t.unlink(slot)
	if at != last {
		moved, _ := t.search(t.packed(last).id)
		t.slots[moved] = at + 1
		*t.packed(at) = *t.packed(last)
		if number := t.packed(at).number; number != 0 {
			t.roll.places[number-1] = at + 1
		}
		if f, has := t.failures[last]; has {
			t.failures[at] = f
			delete(t.failures, last)
		}
	}
	*t.packed(last) = packed{}
	t.count--
	if t.count%chunk == 0 {
		t.chunks = t.chunks[:len(t.chunks)-1]
	}
}

// dropWords drops all words that a record shares with others.
func (t *Table) dropWords(at uint32) {
	r := t.packed(at)
	t.groups.drop(r.group)
	t.tokens.drop(r.token)
	for _, place := range []uint16{r.version, r.told, r.begun} {
		t.versions.drop(place)
	}
	t.editions.drop(r.edition)
	t.archs.drop(r.arch)
	r.name = t.names.replace(r.name, "")
	t.putFailure(at, rollout.Failure{})
}

// unlink frees a slot. Later slots move up if their own searches begin at or before it.
func (t *Table) unlink(slot int) {
	mask := len(t.slots) - 1
	for next := (slot + 1) & mask; t.slots[next] != 0; next = (next + 1) & mask {
		first := t.first(t.packed(t.slots[next] - 1).id)
		if (next-first)&mask >= (next-slot)&mask {
			t.slots[slot] = t.slots[next]
			slot = next
		}
	}
	t.slots[slot] = 0
}

// manyErrors replaces errors of hosts without room: a verdict is kept whatever its words.
const manyErrors = "(too many different errors are kept already)"

func (t *Table) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	for at := range t.count {
		slot, _ := t.search(t.packed(uint32(at)).id)
		t.slots[slot] = uint32(at) + 1
	}
}

// Forget removes the hosts for which f returns true, and words and names that no other host has.
// It returns how many there were.
func (t *Table) Forget(f func(*Entry) bool) (forgotten int) {
	old := *t
	t.clear()
	var e Entry
	for at := range old.count {
		old.entry(uint32(at), &e)
		r := old.packed(uint32(at))
		if f(&e) {
			forgotten++
			t.roll.leave(e.ID, r.number)
			continue
		}
		number, marked := r.number, r.flags&heard
		t.Put(&e)
		kept := t.packed(uint32(t.count - 1))
		kept.number, kept.flags = number, kept.flags|marked
		if number != 0 {
			t.roll.places[number-1] = uint32(t.count)
		}
		if (at+1)%chunk == 0 {
			old.chunks[at/chunk] = nil // the table must not exist twice
		}
	}
	return forgotten
}

// Each calls f for each host, in no order, until it returns false. The entry is valid until f
// returns.
func (t *Table) Each(f func(*Entry) bool) { t.From(0, f) }

// From is Each for the hosts from a place on, and returns the place after the last one. Places
// stay the same until hosts are forgotten; new hosts come last.
func (t *Table) From(place int, f func(*Entry) bool) (next int) {
	var e Entry
	return t.from(place, func(at uint32) bool {
		t.entry(at, &e)
		return f(&e)
	})
}

func (t *Table) from(place int, f func(at uint32) bool) (next int) {
	for ; place < t.count; place++ {
		pause(place)
		if !f(uint32(place)) {
			return place + 1
		}
	}
	return place
}

// pause lets goroutines continue, now and then, that wait for an answer. Yielding the processor is
// not enough: the network is polled only when nothing else can run.
func pause(at int) {
	if at%pauseEvery == pauseEvery-1 { // few hosts take no time
		time.Sleep(50 * time.Microsecond)
	}
}

// pauseEvery is a millisecond of work: in an idle process each pause takes as long.
const pauseEvery = 4096
