package postgres

import (
	"context"
	"time"
)

// Listen calls changed soon after a change of anybody, until ctx ends. It is a hint: what is missed while the database is
// away, who polls sees all the same.
func (s *Store) Listen(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		s.listen(ctx, changed)
		pause(ctx, maxAttempts)
	}
}

// gather is how long changes are waited for that come together.
const gather = 200 * time.Millisecond

func (s *Store) listen(ctx context.Context, changed func()) {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return
	}
	// It is not used for anything else: it has heard what others have not.
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
