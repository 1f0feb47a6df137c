package rollout

import (
	"fmt"
	"hash/maphash"
)

// Index holds a plan in memory, 24 bytes a host: the hosts in their order, and an
// open-addressing table from hosts to places. It is never changed once it is made.
type Index struct {
	ids []HostID
	// slots holds places + 1, and 0 in free slots. About half of them are free.
	slots []uint32
	seed  maphash.Seed
}

// NewIndex returns the index of hosts in their order, and keeps them. The same host
// twice is an error: it would have two places.
func NewIndex(ids []HostID) (*Index, error) {
	x := &Index{ids: ids, slots: make([]uint32, 2*len(ids)+1), seed: maphash.MakeSeed()}
	for i := range ids {
		slot, there := x.find(ids[i])
		if there {
			return nil, fmt.Errorf("host %s appears twice", ids[i])
		}
		x.slots[slot] = uint32(i) + 1
	}
	return x, nil
}

// Len returns how many hosts there are.
func (x *Index) Len() int { return len(x.ids) }

// ID returns the host at a place.
func (x *Index) ID(place int) HostID { return x.ids[place] }

// Place returns the place of a host, from 0. A nil index has no hosts.
func (x *Index) Place(id HostID) (int, bool) {
	if x == nil {
		return 0, false
	}
	slot, there := x.find(id)
	return int(x.slots[slot]) - 1, there
}

// Within reports whether a host has a place, and not after another one. For most hosts whose turn has not come, it does
// not look at the ids, which are seldom in a cache: a host that is found on the way has a later place.
func (x *Index) Within(id HostID, last int) bool {
	if x == nil {
		return false
	}
	for slot := x.first(id); ; {
		place := int(x.slots[slot]) - 1
		if place < 0 || place <= last && x.ids[place] == id {
			return place >= 0
		}
		if slot++; slot == len(x.slots) {
			slot = 0
		}
	}
}

// Bytes returns how much memory the hosts take.
func (x *Index) Bytes() int { return len(x.ids)*len(HostID{}) + len(x.slots)*4 }

// first is the slot at which the search for a host begins. The hash has a seed of its own: a host that chooses its UUID
// cannot make all searches long.
func (x *Index) first(id HostID) int {
	return int(maphash.Bytes(x.seed, id[:]) >> 32 * uint64(len(x.slots)) >> 32)
}

// find returns the slot of a host, or the free one where it belongs.
func (x *Index) find(id HostID) (slot int, there bool) {
	for slot = x.first(id); ; slot++ {
		if slot == len(x.slots) {
			slot = 0
		}
		place := x.slots[slot]
		if place == 0 || x.ids[place-1] == id {
			return slot, place != 0
		}
	}
}
