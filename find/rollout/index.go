package rollout

import "fmt"

// Index holds a plan in memory: the hosts in their order, and their places. It is never
// changed once it is made.
type Index struct {
	ids    []HostID
	places map[HostID]uint32
}

// NewIndex returns the index of hosts in their order, and keeps them. The same host
// twice is an error: it would have two places.
func NewIndex(ids []HostID) (*Index, error) {
	x := &Index{ids: ids, places: make(map[HostID]uint32, len(ids))}
	for i, id := range ids {
		if _, there := x.places[id]; there {
			return nil, fmt.Errorf("host %s appears twice", id)
		}
		x.places[id] = uint32(i)
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
	place, there := x.places[id]
	return int(place), there
}

// Within reports whether a host has a place, and not after another one.
func (x *Index) Within(id HostID, last int) bool {
	place, there := x.Place(id)
	return there && place <= last
}
