package postgres

import (
	"context"
	"time"
)

// Listen calls changed soon after each server's changes, until ctx ends. It is a hint: changes while the database is away
// are missed, so the caller has to poll, too.
func (s *Store) Listen(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		s.listen(ctx, changed)
		pause(ctx, maxAttempts)
	}
}

// gather is how long Listen waits for changes that come together.
const gather = 200 * time.Millisecond

func (s *Store) listen(ctx context.Context, changed func()) {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return
	}
	// The connection is not used for anything else: its session listens, and others must not.
	conn := c.Hijack()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn.Close(ctx)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return
	}
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return
		}
		changed()
		together, cancel := context.WithTimeout(ctx, gather)
		<-together.Done()
		cancel()
	}
}
