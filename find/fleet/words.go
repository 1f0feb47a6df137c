package fleet

import "unsafe"

// words keeps each of some strings once. The place 0 is that of the empty string.
type words struct {
	places map[string]uint32
	list   []string
	limit  int
}

func newWords(limit int) *words {
	return &words{places: map[string]uint32{"": 0}, list: []string{""}, limit: limit}
}

// place returns that of a word, which is added where it is missing; false where
// there is no room for it.
func (w *words) place(s string) (uint32, bool) {
	if at, there := w.places[s]; there {
		return at, true
	}
	if len(w.list) > w.limit {
		return 0, false
	}
	// A copy of its own: what is given may be part of a whole request.
	s = string([]byte(s))
	at := uint32(len(w.list))
	w.places[s] = at
	w.list = append(w.list, s)
	return at, true
}

func (w *words) at(place uint32) string { return w.list[place] }

// names keeps strings that few hosts share, one after the other: a byte for the
// length, then the string. The place 0 is that of the empty string.
type names struct {
	text   []byte
	wasted int // bytes of what nobody names any more
}

// put returns the place of a string of at most 255 bytes.
func (n *names) put(s string) uint32 {
	if s == "" {
		return 0
	}
	if len(n.text) == 0 {
		n.text = append(n.text, 0)
	}
	at := uint32(len(n.text))
	n.text = append(append(n.text, byte(len(s))), s...)
	return at
}

// at returns a string without a copy: what is in text once is never written again.
func (n *names) at(place uint32) string {
	if place == 0 {
		return ""
	}
	return unsafe.String(&n.text[place+1], int(n.text[place]))
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
