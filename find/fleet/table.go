package fleet

import (
	"math"
	"time"

	"teleport-update/find/rollout"
)

// Table holds the hosts. Several goroutines must not use it at once, unless all only read, each by
// a View of its own.
type Table struct {
	limits   Limits
	hosts    map[rollout.HostID]packed
	failures map[rollout.HostID]failure
	names    names
	roll     roll

	groups, tokens, versions, editions, archs, errors *words
}

// New returns a table without hosts.
func New(limits Limits) *Table {
	t := &Table{limits: limits, hosts: make(map[rollout.HostID]packed), failures: make(map[rollout.HostID]failure)}
	t.roll.clear()
	limit, named := t.limits.Words, t.limits.Named
	if named == nil {
		named = func(string) bool { return false }
	}
	t.groups, t.versions = newWords(limit, Other, named), newWords(limit, Other, named)
	t.editions, t.archs = newWords(limit, Other, isEdition), newWords(limit, Other, isArch)
	t.errors = newWords(limit, manyErrors, func(string) bool { return false })
	// Only people make tokens, never more than there is room for.
	t.tokens = newWords(math.MaxUint16, Other, func(string) bool { return true })
	return t
}

// Len returns how many hosts there are.
func (t *Table) Len() int { return len(t.hosts) }

// Get fills in the entry of a host; it is false if the table does not have the host.
func (t *Table) Get(id rollout.HostID, into *Entry) bool {
	r, there := t.hosts[id]
	if there {
		t.entry(id, &r, into)
	}
	return there
}

func (t *Table) entry(id rollout.HostID, r *packed, into *Entry) {
	t.host(id, r, &into.Host)
	into.Secret, into.Token, into.Sequence, into.Boots = r.secret, t.tokens.at(r.token), r.sequence, r.boots
	into.Floor, into.Alternated, into.Burst, into.Revision = r.floor, moment(r.alternated), r.burst, r.revision
}

func (t *Table) host(id rollout.HostID, r *packed, into *rollout.Host) {
	*into = rollout.Host{
		ID: id, UpdaterID: r.updater, Hostname: t.names.at(r.name), Group: t.groups.at(r.group),
		Version: rollout.Semver(t.versions.at(r.version)),
		Edition: t.editions.at(r.edition), Arch: t.archs.at(r.arch),
		Pinned: r.flags&pinned != 0, Disabled: r.flags&disabled != 0, Unhealthy: r.flags&unhealthy != 0, Cloned: r.flags&cloned != 0,
		BelowMinimum: r.flags&belowMinimum != 0, Unsigned: r.flags&unsigned != 0,
		FirstSeen: moment(r.firstSeen), LastSeen: moment(r.lastSeen),
		Told:  rollout.Event{Target: rollout.Semver(t.versions.at(r.told)), At: moment(r.toldAt)},
		Begun: rollout.Event{Target: rollout.Semver(t.versions.at(r.begun)), At: moment(r.begunAt)},
	}
	if r.flags&hasFailed != 0 {
		f := t.failures[id]
		into.Failed = rollout.Failure{
			Event: rollout.Event{Target: rollout.Semver(t.versions.at(f.target)), At: moment(f.at)},
			Error: t.errors.at(f.text), Outcome: time.Unix(0, f.outcome).UTC(), Until: moment(f.until),
		}
	}
}

// Put keeps an entry, and replaces the one with the same id. Words without room become Other.
func (t *Table) Put(e *Entry) {
	before, there := t.hosts[e.ID]
	r := packed{
		updater: e.UpdaterID, secret: e.Secret, revision: e.Revision, boots: e.Boots, sequence: e.Sequence, floor: e.Floor,
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
	if t.putFailure(e.ID, e.Failed) {
		r.flags |= hasFailed
	}
	r.number, r.flags = before.number, r.flags|before.flags&heard
	if !there {
		r.number = t.roll.arrive(e.ID)
	}
	t.hosts[e.ID] = r
	if t.names.wasted > t.names.size()/2 && t.names.wasted > 1<<20 {
		t.rename()
	}
}

// rename drops the names that no host has any more.
func (t *Table) rename() {
	old := t.names
	t.names = names{}
	for id, r := range t.hosts {
		r.name = t.names.put(old.at(r.name))
		t.hosts[id] = r
	}
}

// putFailure keeps the failure of a host, and reports whether there is one.
func (t *Table) putFailure(id rollout.HostID, f rollout.Failure) bool {
	before := t.failures[id] // zeros if there is no failure
	target, text := t.versions.exchange(before.target, string(f.Target)), t.errors.exchange(before.text, f.Error)
	if f.Target == "" {
		t.errors.drop(text)
		delete(t.failures, id)
		return false
	}
	t.failures[id] = failure{outcome: f.Outcome.UnixNano(), at: seconds(f.At), until: seconds(f.Until), target: target, text: text}
	return true
}

// Remove removes one host; it does nothing for an unknown id.
func (t *Table) Remove(id rollout.HostID) {
	r, there := t.hosts[id]
	if !there {
		return
	}
	t.roll.leave(id, r.number)
	t.groups.drop(r.group)
	t.tokens.drop(r.token)
	for _, place := range []uint16{r.version, r.told, r.begun} {
		t.versions.drop(place)
	}
	t.editions.drop(r.edition)
	t.archs.drop(r.arch)
	t.names.replace(r.name, "")
	t.putFailure(id, rollout.Failure{})
	delete(t.hosts, id)
}

// manyErrors replaces errors of hosts without room: a verdict is kept whatever its words.
const manyErrors = "(too many different errors are kept already)"

// Forget removes the hosts for which f returns true. It returns how many there were.
func (t *Table) Forget(f func(*Entry) bool) (forgotten int) {
	var e Entry
	for id, r := range t.hosts {
		if t.entry(id, &r, &e); f(&e) {
			forgotten++
			t.Remove(id)
		}
	}
	return forgotten
}

// Each calls f for each host, in no order, until it returns false. The entry is valid until f
// returns.
func (t *Table) Each(f func(*Entry) bool) {
	var e Entry
	looked := 0
	for id, r := range t.hosts {
		looked++
		pause(looked)
		if t.entry(id, &r, &e); !f(&e) {
			return
		}
	}
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
