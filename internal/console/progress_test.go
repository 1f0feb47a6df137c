package console

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// spoken keeps when each line was written.
type spoken struct {
	begun time.Time
	at    []time.Duration
	lines []string
}

func (s *spoken) Write(p []byte) (int, error) {
	s.at = append(s.at, time.Since(s.begun))
	s.lines = append(s.lines, strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// The clock is the bubble's: work of two minutes takes no time.
func TestLongWorkIsNeverSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &spoken{begun: time.Now()}
		p := To(out).Watch("build", 100*time.Second)
		time.Sleep(30 * time.Second)
		p.Step("pack")
		p.Done(1, 4)
		time.Sleep(90 * time.Second)
		p.End()
		silent := time.Duration(0)
		last := time.Duration(0)
		for _, at := range append(out.at, 120*time.Second) {
			silent, last = max(silent, at-last), at
		}
		if out.at[0] > 5*time.Second || silent > 10*time.Second {
			t.Errorf("the first word came after %s, and it was silent for %s", out.at[0], silent)
		}
		if want := "build … 4 s, about 96 s left"; out.lines[0] != want {
			t.Errorf("it begins with %q; want %q", out.lines[0], want)
		}
		if want := "pack … 36 s, 25 %, about 84 s left"; out.lines[4] != want {
			t.Errorf("it goes on with %q; want %q", out.lines[4], want)
		}
		said := len(out.lines)
		time.Sleep(time.Minute)
		if len(out.lines) != said {
			t.Error("it speaks after its end")
		}
	})
}

func TestShortWorkSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &spoken{begun: time.Now()}
		p := To(out).Watch("copy", 0)
		time.Sleep(3 * time.Second)
		p.End()
		p.End()
		if len(out.lines) > 0 {
			t.Errorf("it says %q", out.lines)
		}
	})
}

// Work whose end nobody knows says no time, also if it takes longer than usual.
func TestProgressNamesNoTimeThatItDoesNotKnow(t *testing.T) {
	now := time.Now()
	for _, p := range []*Progress{
		{what: "copy", begun: now.Add(-time.Hour)},
		{what: "copy", begun: now.Add(-time.Hour), usual: time.Minute},
		{what: "copy", begun: now.Add(-time.Hour), at: now.Add(-time.Hour), done: 1, total: 1},
	} {
		if line := p.word(now); strings.Contains(line, "left") {
			t.Errorf("it says %q", line)
		}
	}
}
