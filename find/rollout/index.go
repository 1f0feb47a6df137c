package rollout

import (
	"fmt"
	"hash/maphash"
)

// Index holds a plan in memory, 24 bytes a host: the hosts in their order, and an
// open-addressing table from hosts to places. It is never changed once it is made.
type Index struct {
	ids []HostID
	// slots holds places + 1, and 0 where it is free. About half of it is.
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

// Bytes returns how much memory the hosts take.
func (x *Index) Bytes() int { return len(x.ids)*len(HostID{}) + len(x.slots)*4 }

// find returns the slot of a host, or the free one where it belongs. The hash has a
// seed of its own: those who choose their UUIDs cannot make all searches long.
func (x *Index) find(id HostID) (slot int, there bool) {
	size := uint64(len(x.slots))
	high := maphash.Bytes(x.seed, id[:]) >> 32
	for slot = int(high * size >> 32); ; slot++ {
		if slot == int(size) {
			slot = 0
		}
		place := x.slots[slot]
		if place == 0 || x.ids[place-1] == id {
			return slot, place != 0
		}
	}
}
