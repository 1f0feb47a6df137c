package server

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"teleport-update/find"
)

// maxBodies bounds the cache. Answers differ in a version or two, in yes and
// no, and in a few jitters; should there ever be more, the cache starts anew.
const maxBodies = 512

// bodies keeps the bytes of every answer that was ever served. Readers take no
// lock: the map they see is never changed, only replaced.
type bodies struct {
	current atomic.Pointer[map[find.Answer]*body]
	adding  sync.Mutex
}

type body struct {
	data   []byte
	length []string // of data, as the value of a header
}

func (b *bodies) get(answer find.Answer) (*body, error) {
	if known := b.current.Load(); known != nil {
		if found := (*known)[answer]; found != nil {
			return found, nil
		}
	}
	data, err := answer.Body()
	if err != nil {
		return nil, err
	}
	added := &body{data: data, length: []string{strconv.Itoa(len(data))}}
	b.adding.Lock()
	defer b.adding.Unlock()
	next := make(map[find.Answer]*body)
	if known := b.current.Load(); known != nil && len(*known) < maxBodies {
		maps.Copy(next, *known)
	}
	next[answer] = added
	b.current.Store(&next)
	return added, nil
}
