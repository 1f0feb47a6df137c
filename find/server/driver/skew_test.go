package driver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"teleport-update/find/server/answers"
)

func TestClocksThatAreApartStepNothing(t *testing.T) {
	now := time.Unix(1_750_000_000, 0)
	for name, c := range map[string]struct {
		store, way time.Duration // ahead of the server; how long the question takes
		want       string
	}{
		"the same":                        {0, 0, ""},
		"ten seconds":                     {10 * time.Second, 0, ""},
		"the server is ahead":             {-11 * time.Second, 0, "11s ahead of"},
		"the server is behind":            {15 * 24 * time.Hour, 0, "360h0m0s behind"},
		"within the time of the question": {12 * time.Second, 10 * time.Second, ""},
	} {
		at := now
		e := NewEngine(Options{
			Answers:    new(answers.Stored),
			Clock:      func() time.Time { return at },
			StoreClock: func(context.Context) (time.Time, error) { at = at.Add(c.way); return now.Add(c.store), nil },
		})
		err := e.checkClock(t.Context())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if c.want == "" {
			continue
		}
		// Options without a store: a tick that got further would panic.
		if _, err := e.Tick(t.Context()); !errors.As(err, new(*SkewError)) || !e.Status().LastTick.IsZero() {
			t.Errorf("%s: a tick: %v, %+v", name, err, e.Status())
		}
		if want := now.Add(c.store + maxAge); !e.deadline(now).Equal(want) {
			t.Errorf("%s: the deadline is %s by the store's clock; want %s", name, e.deadline(now), want)
		}
	}
	if e := NewEngine(Options{}); !e.deadline(now).IsZero() {
		t.Error("a deadline by a clock that nobody has looked at")
	}
}
