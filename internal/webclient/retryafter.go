package webclient

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter is the time at which a server may be asked again: after a while, or at a moment (RFC 9110
// 10.2.3). The zero RetryAfter stands for a server that does not say.
type RetryAfter struct {
	after time.Duration
	at    time.Time
	said  bool
}

// ParseRetryAfter reads the header Retry-After of an answer. It ignores a value that is neither a
// number of seconds nor a moment.
func ParseRetryAfter(header http.Header) RetryAfter {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return RetryAfter{after: time.Duration(seconds) * time.Second, said: true}
	}
	if at, err := http.ParseTime(text); err == nil {
		return RetryAfter{at: at, said: true}
	}
	return RetryAfter{}
}

// String returns the text for an error, after the server's answer; it is empty if the server does not say.
func (r RetryAfter) String() string {
	switch {
	case !r.said:
		return ""
	case r.at.IsZero():
		return fmt.Sprintf(" (it wants to be asked again after %s)", r.after)
	}
	return fmt.Sprintf(" (it wants to be asked again at %s)", r.at.UTC().Format(time.RFC3339))
}

// Wait returns how long to leave the server alone, 0 if it does not say.
func (r RetryAfter) Wait(now time.Time) time.Duration {
	if r.at.IsZero() {
		return r.after
	}
	return max(0, r.at.Sub(now))
}
