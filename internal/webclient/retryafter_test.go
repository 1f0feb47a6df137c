package webclient

import (
	"net/http"
	"testing"
	"time"
)

func TestWhenAServerWantsToBeAskedAgain(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]struct {
		says string
		wait time.Duration
	}{
		"":                               {},
		"0":                              {says: " (it wants to be asked again after 0s)"},
		" 120 ":                          {" (it wants to be asked again after 2m0s)", 2 * time.Minute},
		"Sun, 22 Nov 2026 12:30:00 GMT":  {" (it wants to be asked again at 2026-11-22T12:30:00Z)", 30 * time.Minute},
		"Sunday, 22-Nov-26 12:00:05 GMT": {" (it wants to be asked again at 2026-11-22T12:00:05Z)", 5 * time.Second},
		"Sun, 22 Nov 2026 11:00:00 GMT":  {says: " (it wants to be asked again at 2026-11-22T11:00:00Z)"},
		"-1":                             {},
		"1.5":                            {},
		"Sun Nov 22 12:00:00 2026":       {says: " (it wants to be asked again at 2026-11-22T12:00:00Z)"},
		"\x1b[2J":                        {},
		"30s":                            {},
		"99999999999999999999":           {},
		"99999999999":                    {},
		"soon":                           {},
		"120, 120":                       {},
	} {
		r := ParseRetryAfter(http.Header{"Retry-After": {text}})
		if r.String() != want.says || r.Wait(now) != want.wait {
			t.Errorf("%q: %q, %s; want %q, %s", text, r, r.Wait(now), want.says, want.wait)
		}
	}
}
