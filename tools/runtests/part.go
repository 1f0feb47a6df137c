package main

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// part is a package, and what is known of the run of its tests.
type part struct {
	pkg  string // import path
	name string // without the module's

	started time.Time
	took    time.Duration
	ended   bool
	ok      bool

	order   []string                 // tests, as they begin
	output  map[string][]string      // of the tests that have not passed; "": of the package itself
	running map[string]time.Time     // tests, and since when
	lasted  map[string]time.Duration // tests that are no part of another
	passed  int
	failed  []string
	skipped []string
	figures []string // lines by which campaigns count
	closing string   // go test's last line about it
}

func newPart(pkg string) *part {
	name := strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
	if name == "" {
		name = "."
	}
	return &part{pkg: pkg, name: name, output: map[string][]string{}, running: map[string]time.Time{}, lasted: map[string]time.Duration{}}
}

// is reports whether a person means this part by a name: its path, or the end of
// it. An empty name is every part.
func (p *part) is(name string) bool {
	name = strings.Trim(strings.TrimPrefix(name, "./"), "/")
	return name == "" || name == p.pkg || name == p.name || strings.HasSuffix(p.name, "/"+name) || path.Base(p.name) == name
}

// cached reports whether go test knew the result and ran nothing.
func (p *part) cached() bool { return strings.HasSuffix(p.closing, "(cached)") }

// event is one line of go test -json: see `go doc test2json`.
type event struct {
	Time        time.Time
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// take notes what an event says.
func (p *part) take(e event) {
	switch e.Action {
	case "start":
		p.started = e.Time
	case "run":
		p.order = append(p.order, e.Test)
		p.running[e.Test] = e.Time
	case "pause":
		delete(p.running, e.Test)
	case "cont":
		p.running[e.Test] = e.Time
	case "output":
		p.print(e)
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.ended, p.ok = true, e.Action != "fail"
			p.took = time.Duration(e.Elapsed * float64(time.Second))
			return
		}
		delete(p.running, e.Test)
		if !strings.Contains(e.Test, "/") {
			p.lasted[e.Test] = time.Duration(e.Elapsed * float64(time.Second))
		}
		switch e.Action {
		case "pass":
			p.passed++
			delete(p.output, e.Test)
		case "skip":
			p.skipped = append(p.skipped, reason(e.Test, p.output[e.Test]))
			delete(p.output, e.Test)
		case "fail":
			p.failed = append(p.failed, e.Test)
		}
	}
}

var (
	framing = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME) `)
	closing = regexp.MustCompile(`^(ok  |FAIL|\?   )\t\S+\t`)
	figures = regexp.MustCompile(`^(?:\s*\S+\.go:\d+: )?(\S.*: .*violations: \d+.*?)\s*$`)
)

func (p *part) print(e event) {
	if framing.MatchString(e.Output) {
		return
	}
	if m := figures.FindStringSubmatch(e.Output); m != nil {
		p.figures = append(p.figures, m[1])
	}
	if e.Test == "" && closing.MatchString(e.Output) {
		p.closing = strings.TrimSuffix(e.Output, "\n")
		return
	}
	p.output[e.Test] = append(p.output[e.Test], e.Output)
}

// reason is why a test was skipped, in one line.
func reason(test string, output []string) string {
	for _, line := range output {
		if _, text, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok = strings.Cut(text, ": "); ok {
				return strings.TrimSpace(text)
			}
		}
	}
	return test
}

// longest are the innermost tests that run, the one that has run longest first.
func (p *part) longest() []string {
	tests := slices.DeleteFunc(slices.Collect(maps.Keys(p.running)), func(t string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(p.running)), func(other string) bool { return strings.HasPrefix(other, t+"/") })
	})
	slices.SortFunc(tests, func(a, b string) int { return p.running[a].Compare(p.running[b]) })
	return tests
}

// unhappy is all that the tests which did not pass have printed, in the order in
// which they began, and then what the package itself has.
func (p *part) unhappy() string {
	var text strings.Builder
	for _, t := range append(slices.Clone(p.order), "") {
		for _, line := range p.output[t] {
			text.WriteString(line)
		}
		delete(p.output, t) // a test of the same name began again: -count
	}
	return text.String()
}
