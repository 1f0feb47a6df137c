package fleet

import (
	"math"
	"unsafe"
)

// words keeps each of some strings once. The place 0 is that of the empty string.
type words struct {
	places map[string]uint16
	list   []string
	limit  int
}

func newWords(limit int) *words {
	return &words{places: map[string]uint16{"": 0}, list: []string{""}, limit: min(limit, math.MaxUint16)}
}

// place returns that of a word, which is added where it is missing; false where
// there is no room for it.
func (w *words) place(s string) (uint16, bool) {
	if at, there := w.places[s]; there {
		return at, true
	}
	if len(w.list) > w.limit {
		return 0, false
	}
	// A copy of its own: what is given may be part of a whole request.
	s = string([]byte(s))
	at := uint16(len(w.list))
	w.places[s] = at
	w.list = append(w.list, s)
	return at, true
}

func (w *words) at(place uint16) string { return w.list[place] }

// names keeps strings that few hosts share, one after the other: a byte for the
// length, then the string. The place 0 is that of the empty string. They are in blocks: one
// list that grows would be there twice while it does.
type names struct {
	blocks [][]byte
	wasted int // bytes of what nobody names any more
}

const block = 1 << 16

func (n *names) size() int { return len(n.blocks) * block }

// put returns the place of a string of at most 255 bytes.
func (n *names) put(s string) uint32 {
	if s == "" {
		return 0
	}
	last := len(n.blocks) - 1
	if last < 0 || len(n.blocks[last])+1+len(s) > block {
		n.blocks = append(n.blocks, make([]byte, 0, block))
		if last++; last == 0 {
			n.blocks[0] = append(n.blocks[0], 0) // no string has the place 0
		}
	}
	b := n.blocks[last]
	at := uint32(last*block + len(b))
	n.blocks[last] = append(append(b, byte(len(s))), s...)
	return at
}

// at returns a string without a copy: what is in a block once is never written again.
func (n *names) at(place uint32) string {
	if place == 0 {
		return ""
	}
	b := n.blocks[place/block][place%block:]
	return unsafe.String(&b[1], int(b[0]))
}

// replace returns the place of a string that takes the place of another.
func (n *names) replace(place uint32, s string) uint32 {
	before := n.at(place)
	if before == s {
		return place
	}
	if place != 0 {
		n.wasted += 1 + len(before)
	}
	return n.put(s)
}
