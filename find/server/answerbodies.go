package server

import (
	"maps"
	"sync"
	"sync/atomic"

	"teleport-update/find"
)

// maxBodies bounds the cache. Answers differ in a version or two, in yes and
// no, and in a few jitters; should there ever be more, the cache starts anew.
const maxBodies = 512

// bodies caches the bytes of all answers. Readers take no lock: their map is never
// changed, only replaced.
type bodies struct {
	// template is added to each answer. It is no part of the key, which is hashed for each
	// request.
	template string
	current  atomic.Pointer[map[find.Answer][]byte]
	adding   sync.Mutex
}

func (b *bodies) get(answer find.Answer) ([]byte, error) {
	if known := b.current.Load(); known != nil {
		if body := (*known)[answer]; body != nil {
			return body, nil
		}
	}
	offering := answer
	offering.ReleaseTemplate = b.template
	body, err := offering.Body()
	if err != nil {
		return nil, err
	}
	b.adding.Lock()
	defer b.adding.Unlock()
	next := make(map[find.Answer][]byte)
	if known := b.current.Load(); known != nil && len(*known) < maxBodies {
		maps.Copy(next, *known)
	}
	next[answer] = body
	b.current.Store(&next)
	return body, nil
}
