package fetch

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// clock is a time that goes on by hand.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

// screen is one that keeps what was drawn.
type screen struct {
	out   *bytes.Buffer
	width int
}

func (s screen) Draw(line string) { s.out.WriteString("\r" + line) }
func (s screen) Keep(line string) { s.out.WriteString("\r" + line + "\n") }
func (s screen) Width() int       { return s.width }

func TestTheBarFitsItsTerminal(t *testing.T) {
	for _, tc := range []struct {
		width int
		total int64
		want  string // the line in the middle of the download
	}{
		{120, 100 << 20, "15.1.1 (oss)  [====================                    ]   50% of 100.0 MiB  10.0 MiB/s  5s left"},
		{70, 100 << 20, "15.1.1 (oss)  [======       ]   50% of 100.0 MiB  10.0 MiB/s  5s left"},
		{40, 100 << 20, "15.1.1 (oss)   50% of 100.0 MiB  10.0 M"},
		{3, 100 << 20, "15"},
		{0, 100 << 20, ""},
		{80, -1, "15.1.1 (oss)  50.0 MiB  10.0 MiB/s"},
	} {
		var out bytes.Buffer
		c := &clock{time.Unix(0, 0)}
		b := &bar{out: screen{&out, tc.width}, now: c.now}
		b.Start("15.1.1 (oss)")
		for mb := range int64(51) {
			b.Update(mb<<20, tc.total)
			c.t = c.t.Add(100 * time.Millisecond)
		}
		lines := strings.Split(out.String(), "\r")
		if got := lines[len(lines)-1]; got != tc.want {
			t.Errorf("width %d: %q; want %q", tc.width, got, tc.want)
		}
		for _, line := range lines {
			if len(line) >= max(tc.width, 1) {
				t.Errorf("width %d: %q would wrap", tc.width, line)
			}
		}
	}
}

func TestTheBarDrawsRarelyAndEndsItsLine(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Unix(0, 0)}
	b := &bar{out: screen{&out, 80}, now: c.now}
	b.Start("15.1.1")
	for i := range 10000 {
		b.Update(int64(i), 10000)
		c.t = c.t.Add(100 * time.Microsecond)
	}
	b.Update(10000, 10000)
	b.End()
	if n := strings.Count(out.String(), "\r"); n > 12 {
		t.Errorf("drawn %d times in a second", n)
	}
	if !strings.HasSuffix(out.String(), "\n") || !strings.Contains(out.String(), "100% of") {
		t.Errorf("it ended with %q", out.String()[max(0, out.Len()-80):])
	}
	var silent bytes.Buffer
	b = &bar{out: screen{&silent, 80}, now: c.now}
	b.Start("15.1.1")
	b.End()
	if silent.Len() > 0 {
		t.Errorf("a download that never began drew %q", silent.String())
	}
}

func TestTheLogHasALineAtSteps(t *testing.T) {
	for _, tc := range []struct {
		name  string
		each  time.Duration // per percent
		total int64
		lines int
	}{
		{"a download of a second", 10 * time.Millisecond, 100 << 20, 0},
		{"a download of ten seconds", 100 * time.Millisecond, 100 << 20, 5},
		{"a download of three minutes", 1800 * time.Millisecond, 100 << 20, 11},
		{"a download of an hour", 36 * time.Second, 100 << 20, 100},
		{"a download of three minutes of unknown length", 1800 * time.Millisecond, -1, 7},
	} {
		var out bytes.Buffer
		c := &clock{time.Unix(0, 0)}
		s := &stepLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: c.now}
		s.Start("15.1.1")
		for mb := range int64(101) {
			s.Update(mb<<20, tc.total)
			c.t = c.t.Add(tc.each)
		}
		s.End()
		if n := strings.Count(out.String(), "\n"); n < tc.lines-1 || n > tc.lines+1 {
			t.Errorf("%s: %d lines; want about %d\n%s", tc.name, n, tc.lines, out.String())
		}
	}
}

// A person who waits for a slow download learns within seconds what happens, and how long it will take.
func TestTheFirstLineOfASlowDownloadComesSoon(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Unix(0, 0)}
	s := &stepLog{log: slog.New(slog.NewTextHandler(&out, nil)), now: c.now}
	s.Start("15.1.1")
	for mb := range int64(6) {
		s.Update(mb<<20, 1000<<20)
		c.t = c.t.Add(time.Second)
	}
	if !strings.Contains(out.String(), "left=16m") {
		t.Errorf("after five seconds it has said %q", out.String())
	}
}

// What an earlier run left is neither fast nor slow, and a download that begins again
// at another mirror is not one of negative speed.
func TestTheRateIsOfNewBytes(t *testing.T) {
	at := time.Unix(0, 0)
	var r rate
	for n, done := range []int64{900, 910, 920, 10, 20, 30} {
		r.update(at.Add(time.Duration(n)*time.Second), done<<20)
	}
	if got := r.smooth / (1 << 20); got < 9 || got > 11 {
		t.Errorf("%.1f MiB/s; want 10", got)
	}
	if got := r.left(30<<20, 1000<<20); got != "1m37s" {
		t.Errorf("%q left; want 1m37s", got)
	}
}
