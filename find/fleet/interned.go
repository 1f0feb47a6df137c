package fleet

import (
	"math"
	"unsafe"
)

// Other replaces a word without room: a group, a version, an edition or an architecture that hosts have
// made up beyond the limit.
const Other = "(other)"

// words keeps each of some strings once, while a record has it. The place 0 is the empty string, the place 1
// the word that replaces words without room; both always exist.
type words struct {
	places map[string]uint16
	list   []string
	uses   []uint32 // how many records have the word
	free   []uint16 // places without a word
	limit  int
	// named reports whether the operator has named a word: there is room for it beyond the limit.
	named func(string) bool
}

const otherPlace = 1

func newWords(limit int, other string, named func(string) bool) *words {
	return &words{places: map[string]uint16{"": 0, other: otherPlace}, list: []string{"", other}, uses: []uint32{1, 1}, limit: limit,
		named: named}
}

// used returns how many different words there are, without the two that are always there.
func (w *words) used() int { return len(w.places) - 2 }

// knows reports whether a word exists, or can be added because the operator has named it.
func (w *words) knows(s string) bool {
	_, there := w.places[s]
	return there || w.hasPlace() && w.named(s)
}

// hasRoom reports whether there is room for a word that the operator has not named.
func (w *words) hasRoom() bool { return w.used() < w.limit && w.hasPlace() }

func (w *words) hasPlace() bool { return len(w.free) > 0 || len(w.list) <= math.MaxUint16 }

// exchange returns the place of a record's new word, and drops the word at the place before. For a word
// without room it returns the place of Other.
func (w *words) exchange(before uint16, s string) uint16 {
	if w.list[before] == s {
		return before
	}
	w.drop(before)
	at, there := w.places[s]
	switch {
	case there:
	case w.hasRoom() || w.hasPlace() && w.named(s):
		at = w.add(s)
	default:
		at = otherPlace
	}
	if at > otherPlace {
		w.uses[at]++
	}
	return at
}

// add gives a word a place. It copies the word: s may be part of a whole request.
func (w *words) add(s string) (at uint16) {
	s = string([]byte(s))
	if last := len(w.free) - 1; last >= 0 {
		at = w.free[last]
		w.free, w.list[at] = w.free[:last], s
	} else {
		at = uint16(len(w.list))
		w.list, w.uses = append(w.list, s), append(w.uses, 0)
	}
	w.places[s] = at
	return at
}

// drop notes that a record does not have a word any more. If no record has it, its place is free.
func (w *words) drop(place uint16) {
	if place <= otherPlace {
		return
	}
	if w.uses[place]--; w.uses[place] == 0 {
		delete(w.places, w.list[place])
		w.list[place] = ""
		w.free = append(w.free, place)
	}
}

func (w *words) at(place uint16) string { return w.list[place] }

// records returns how many records have a word.
func (w *words) records(s string) int {
	at, there := w.places[s]
	if !there || at <= otherPlace {
		return 0
	}
	return int(w.uses[at])
}

// names keeps strings that few hosts share, one after the other: a byte for the length, then the
// string. The place 0 is the empty string. They are in blocks: one growing list would exist twice
// while it grows.
type names struct {
	blocks [][]byte
	wasted int // bytes of strings that are not used any more
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

// at returns a string without a copy: bytes in a block are never written again.
func (n *names) at(place uint32) string {
	if place == 0 {
		return ""
	}
	b := n.blocks[place/block][place%block:]
	return unsafe.String(&b[1], int(b[0]))
}

// replace returns the place of a string that replaces another.
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
