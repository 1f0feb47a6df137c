package inventory

import (
	"fmt"
	"time"
)

// MaxJoins is how many hosts may join by one token in a minute. Further ones come again with their next
// poll.
const MaxJoins = 1000

// errJoins is the error of a join by a token that too many hosts join by.
var errJoins = fmt.Errorf("more than %d hosts join by this token in a minute; join again later", MaxJoins)

// joinRate counts the joins of the minute, by token.
type joinRate struct {
	minute time.Time
	count  map[string]int
}

func (r *joinRate) add(token string, now time.Time) {
	if minute := now.Truncate(time.Minute); !r.minute.Equal(minute) {
		r.minute, r.count = minute, make(map[string]int)
	}
	r.count[token]++
}

func (r *joinRate) reached(token string, now time.Time) bool {
	return r.minute.Equal(now.Truncate(time.Minute)) && r.count[token] >= MaxJoins
}
