package parts

import (
	"sync"
	"time"
)

// MaxAccessLines is how many lines a second the log of requests may have.
const MaxAccessLines = 100

// sampler takes at most MaxAccessLines of the requests in a second. It takes one of
// every few, by the number of requests in the second before, so that the sample spreads
// over the whole second.
type sampler struct {
	now func() time.Time

	mu      sync.Mutex
	second  time.Time
	seen    int // in this second
	taken   int // taken in this second
	every   int // one of so many is taken
	leftOut int // since the last request that was taken
}

// take reports whether to log a request, and how many were left out since the last one.
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
