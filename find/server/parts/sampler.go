package parts

import (
	"sync"
	"time"
)

// MaxAccessLines is how many lines a second the log of requests may have.
const MaxAccessLines = 100

// sampler takes MaxAccessLines of the requests of a second at most. It takes one of
// every few, by the number of requests in the second before, so that a sample is of all
// of the second and not of its beginning.
type sampler struct {
	now func() time.Time

	mu      sync.Mutex
	second  time.Time
	seen    int // in this second
	taken   int // of them
	every   int // one of so many is taken
	leftOut int // since the last one that was taken
}

// take reports whether a request is of the sample, and how many since the last one were not.
func (s *sampler) take() (leftOut int, taken bool) {
	now := s.now().Truncate(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !now.Equal(s.second) {
		s.every = 1
		if now.Sub(s.second) == time.Second {
			s.every = max(1, (s.seen+MaxAccessLines-1)/MaxAccessLines)
		}
		s.second, s.seen, s.taken = now, 0, 0
	}
	s.seen++
	if s.taken >= MaxAccessLines || s.seen%s.every != 0 {
		s.leftOut++
		return 0, false
	}
	s.taken++
	leftOut, s.leftOut = s.leftOut, 0
	return leftOut, true
}
