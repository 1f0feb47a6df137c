package inventory

import (
	"fmt"
	"sync"
	"time"
)

// clock is one that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// newClock begins on a Monday, an hour before noon.
func newClock() *clock { return &clock{now: time.Date(2025, 6, 2, 11, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func hostUUID(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }
