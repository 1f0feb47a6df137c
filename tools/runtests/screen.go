package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// screen tells a person how far the tests are: on a terminal in one line that
// changes, elsewhere by a line every minute.
type screen struct {
	out      io.Writer
	terminal bool
	verbose  bool
	every    time.Duration

	all      []*part
	ended    int
	status   bool // the last line is one that changes
	warnings []string
	builds   []string // what the compiler said
	begun    time.Time
}

func newScreen(out *os.File, verbose bool) *screen {
	s := &screen{out: out, verbose: verbose, every: time.Minute, begun: time.Now()}
	if _, err := unix.IoctlGetTermios(int(out.Fd()), unix.TCGETS); err == nil {
		s.terminal, s.every = true, time.Second
	}
	return s
}

// expect counts parts that will run.
func (s *screen) expect(parts []*part) { s.all = append(s.all, parts...) }

// say prints lines for good.
func (s *screen) say(text string) {
	if s.status {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.status = false
	}
	fmt.Fprintln(s.out, strings.TrimSuffix(text, "\n"))
}

func (s *screen) warn(text string) {
	s.warnings = append(s.warnings, text)
	s.say("*** " + text)
}

func (s *screen) built(e event) {
	s.builds = append(s.builds, e.Output)
	if s.verbose {
		s.say(e.Output)
	}
}

// event shows what cannot wait for the end.
func (s *screen) event(p *part, e event) {
	switch {
	case s.verbose && e.Action == "output":
		s.say(e.Output)
	case e.Action == "fail" && e.Test != "" && !s.verbose:
		s.say(fmt.Sprintf("        %s: %s failed after %s", p.name, e.Test, seconds(time.Duration(e.Elapsed*float64(time.Second)))))
	}
}

// done shows how a part ended.
func (s *screen) done(p *part) {
	s.ended++
	how := "ok " + seconds(p.took)
	switch {
	case !p.ok:
		how = "FAIL " + seconds(p.took)
	case p.cached():
		how = "ok (cached)"
	}
	if n := len(p.skipped); n > 0 {
		how += fmt.Sprintf(", %d skipped", n)
	}
	total := fmt.Sprint(len(s.all))
	s.say(fmt.Sprintf("[%*d/%s] %s … %s", len(total), s.ended, total, p.name, how))
	for _, line := range p.figures {
		s.say("        " + line)
	}
}

// still shows which parts are at work, and with what. Until a part begins, go test compiles.
func (s *screen) still(parts []*part) {
	if !slices.ContainsFunc(parts, func(p *part) bool { return !p.started.IsZero() }) {
		s.compiling()
		return
	}
	for _, p := range parts {
		if p.started.IsZero() || p.ended {
			continue
		}
		text := fmt.Sprintf("%s … %s, %d tests passed", p.name, seconds(time.Since(p.started)), p.passed)
		if n := len(p.failed); n > 0 {
			text += fmt.Sprintf(", %d failed", n)
		}
		if s.terminal {
			total := fmt.Sprint(len(s.all))
			fmt.Fprintf(s.out, "\r\x1b[K[%*d/%s] %.70s", len(total), s.ended+1, total, text)
			s.status = true
			return // one line for all of them
		}
		if tests := p.longest(); len(tests) > 0 {
			var names []string
			for _, t := range tests[:min(3, len(tests))] {
				names = append(names, fmt.Sprintf("%s (%s)", t, seconds(time.Since(p.running[t]))))
			}
			text += "; running: " + strings.Join(names, ", ")
			if more := len(tests) - len(names); more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
		}
		s.say("        " + text)
	}
}

func (s *screen) compiling() {
	text := "compiling tests … at " + seconds(time.Since(s.begun)) // since the whole began
	if s.terminal {
		fmt.Fprint(s.out, "\r\x1b[K"+text)
		s.status = true
		return
	}
	s.say(text)
}

// end tells what failed, whole, and ends as go test does.
func (s *screen) end(took time.Duration) {
	passed := true
	for _, p := range s.all {
		if p.ended && p.ok {
			continue
		}
		passed = false
		if p.started.IsZero() || s.verbose {
			continue
		}
		// A program that only exits says nothing, and nor does go test of it.
		unfinished := p.longest()
		text := p.unhappy()
		if len(unfinished) > 0 {
			text += fmt.Sprintf("the program ended in the middle of: %s\n", strings.Join(unfinished, ", "))
		}
		if text != "" {
			s.say(fmt.Sprintf("\n=== %s\n%s", p.name, text))
		}
	}
	if text := strings.Join(s.builds, ""); text != "" && !passed && !s.verbose {
		s.say("\n=== the compiler\n" + text)
	}
	s.say(s.summary(took))
	for _, p := range s.all {
		if p.closing != "" {
			s.say(p.closing)
		}
	}
	if !passed {
		s.say("FAIL")
	}
}

func (s *screen) summary(took time.Duration) string {
	var text strings.Builder
	failed, skipped := 0, map[string]int{}
	var reasons []string
	for _, p := range s.all {
		if p.ended && !p.ok {
			failed++
		}
		for _, r := range p.skipped {
			if skipped[r]++; skipped[r] == 1 {
				reasons = append(reasons, r)
			}
		}
	}
	fmt.Fprintf(&text, "\n%d of %d parts ok, %d failed, %d not run, in %s\n", s.ended-failed, len(s.all), failed, len(s.all)-s.ended, seconds(took))
	slices.SortStableFunc(reasons, func(a, b string) int { return skipped[b] - skipped[a] })
	for _, r := range reasons {
		fmt.Fprintf(&text, "skipped: %d × %s\n", skipped[r], r)
	}
	for _, line := range s.slowest(15) {
		fmt.Fprintln(&text, line)
	}
	for _, w := range s.warnings {
		fmt.Fprintf(&text, "*** %s\n", w)
	}
	return text.String()
}

// slowest are the tests that took longest, of those that took ten seconds or more.
func (s *screen) slowest(n int) (lines []string) {
	type test struct {
		name string
		took time.Duration
	}
	var tests []test
	for _, p := range s.all {
		for name, took := range p.lasted {
			if took >= 10*time.Second {
				tests = append(tests, test{p.name + " " + name, took})
			}
		}
	}
	slices.SortFunc(tests, func(a, b test) int { return cmp.Or(cmp.Compare(b.took, a.took), strings.Compare(a.name, b.name)) })
	for _, t := range tests[:min(n, len(tests))] {
		lines = append(lines, fmt.Sprintf("slow: %6s  %s", seconds(t.took), t.name))
	}
	return lines
}

func seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	if d < 10*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
