package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teleport-update/internal/console"
)

// chapter is a part of the demo, with its usual length on two quiet processors.
type chapter struct {
	what  string
	usual time.Duration
}

// chapters returns the parts of the demo with so many acts.
func chapters(acts int) []chapter {
	all := []chapter{
		{"build the programs, and make a small Debian (longer the first time)", 30 * time.Second},
		{"one host: it installs, updates, and puts the old version back when a broken one comes", 35 * time.Second},
		{"three hosts: a broken release is stopped at the first of them", 35 * time.Second},
	}
	return all[:1+acts]
}

// screen is what a person watches.
type screen struct {
	*console.Output
	plain    bool // the acts alone
	progress *console.Progress
	chapters []chapter
	begun    int
}

// announce prints the plan.
func (s *screen) announce(version string) {
	var whole time.Duration
	for _, c := range s.chapters {
		whole += c.usual
	}
	fmt.Fprintf(s, "The demo of teleport-update %s, on hosts that are gone afterwards. It usually takes %.0f s:\n", version, whole.Seconds())
	for i, c := range s.chapters {
		fmt.Fprintf(s, "  %d. %s, %.0f s\n", i+1, c.what, c.usual.Seconds())
	}
}

// chapter begins the next part.
func (s *screen) chapter() {
	s.stop()
	s.begun++
	if s.plain {
		return
	}
	var rest time.Duration
	for _, c := range s.chapters[s.begun-1:] {
		rest += c.usual
	}
	s.progress = s.Watch(fmt.Sprintf("· part %d of %d", s.begun, len(s.chapters)), rest)
}

// stop ends the progress of a part.
func (s *screen) stop() {
	if s.progress != nil {
		s.progress.End()
	}
}

// end prints what to do next.
func (s *screen) end() {
	s.stop()
	s.say("Done. The hosts are gone; nothing was left on this machine but the build folder.")
	fmt.Fprint(s, `
Next:
  make packages             builds deb and rpm packages into build/packages, for a host of yours: README.md, "Install"
  less docs/first-fleet.md  a server and its first hosts, step by step
`)
}

func (s *screen) say(text string) { fmt.Fprintf(s, "\n== %s\n", text) }

// indented sets a command's output off from what the demo says.
func (s *screen) indented() *indented { return &indented{out: s} }

type indented struct {
	out    *screen
	inLine bool
}

func (w *indented) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if !w.inLine {
			line = "    " + line
		}
		if _, err := w.out.Write([]byte(line)); err != nil {
			return 0, err
		}
		w.inLine = !strings.HasSuffix(line, "\n")
	}
	return len(p), nil
}

// stamped has the programs of hosts built with the version of the checkout, apart from those of tests.
func stamped(version string) error {
	dir, err := filepath.Abs("build/demo")
	if err != nil {
		return err
	}
	return errors.Join(os.Setenv("TEST_BUILD_VERSION", version), os.Setenv("TEST_BUILD_DIR", dir))
}
