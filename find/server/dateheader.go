package server

import (
	"net/http"
	"sync/atomic"
	"time"
)

// date is the header of that name, RFC 9110 section 6.6.1: to the second, and formatted
// once a second. net/http gets and formats the time for each answer anew, which takes 2
// % of one.
type date struct{ last atomic.Pointer[dated] }

type dated struct {
	second int64
	header []string
}

// of returns the header's value at a moment. Nobody may change it.
func (d *date) of(now time.Time) []string {
	last, second := d.last.Load(), now.Unix()
	if last == nil || last.second != second {
		last = &dated{second, []string{now.UTC().Format(http.TimeFormat)}}
		d.last.Store(last)
	}
	return last.header
}
