package host

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Test is a host of a test. Its methods fail the test where the Host's return an
// error; so they belong into the test's own goroutine, the Host's into others.
type Test struct {
	*Host
	t    testing.TB
	kept sync.Once
}

// ForTest makes a host and boots it. The host is closed when the test ends; if
// the test failed, the end of the journal is logged first, and Keep lets a person
// look into it.
//
// What is missing is installed. Where hosts cannot run all the same, the test is
// skipped and says why; with CI=true in the environment it fails.
func ForTest(t testing.TB, o Options) *Test {
	t.Helper()
	h := MadeForTest(t, o)
	begun := time.Now()
	if err := h.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s was up after %v", h.Name, time.Since(begun).Round(time.Millisecond))
	return h
}

// MadeForTest is ForTest without the boot.
func MadeForTest(t testing.TB, o Options) *Test {
	t.Helper()
	require(t)
	h, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	test := &Test{Host: h, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			test.explain()
		}
		test.Keep()
		if err := h.Close(); err != nil {
			t.Errorf("close %s: %v", h.Name, err)
		}
	})
	return test
}

func require(t testing.TB) {
	t.Helper()
	err := Available()
	if err != nil && os.Geteuid() == 0 {
		if err = EnsureTools(t.Context()); err == nil {
			err = Available()
		}
	}
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("hosts are required (CI=true): %v", err)
	default:
		t.Skipf("SKIPPED, nothing was tested: %v", err)
	}
}

// explain logs what helps to see why the test failed.
func (h *Test) explain() {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	journal, err := h.Host.Journal(ctx, "")
	h.t.Logf("the end of the journal of %s (%v):\n%s", h.Name, err, tail(journal, 80))
	h.t.Logf("the end of its console:\n%s", tail(h.Console(), 20))
}

// Try runs a command and returns how it ended, well or not.
func (h *Test) Try(args ...string) Result {
	h.t.Helper()
	r, err := h.Run(h.t.Context(), args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// Must runs a command that has to succeed, and returns its output without the
// last line break.
func (h *Test) Must(args ...string) string {
	h.t.Helper()
	r := h.Try(args...)
	if r.Code != 0 {
		h.t.Fatalf("%s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSuffix(r.Stdout, "\n")
}

// Put puts a copy of an outside program in place, mode 0755.
func (h *Test) Put(from, to string) {
	h.t.Helper()
	h.check(h.CopyIn(from, to, 0o755))
}

// Write puts a text file in place, mode 0644.
func (h *Test) Write(name, text string) {
	h.t.Helper()
	h.check(h.WriteFile(name, []byte(text), 0o644))
}

// Read returns the content of a file.
func (h *Test) Read(name string) string {
	h.t.Helper()
	data, err := h.ReadFile(name)
	h.check(err)
	return string(data)
}

// Link returns what a link says, "" if there is none.
func (h *Test) Link(name string) string {
	target, err := h.Readlink(name)
	if err != nil {
		return ""
	}
	return target
}

// Show returns one property of a unit.
func (h *Test) Show(unit, property string) string {
	h.t.Helper()
	props, err := h.Unit(h.t.Context(), unit)
	h.check(err)
	return props[property]
}

// MainExecutable returns the file that a unit's main process executes, "" if it
// has none.
func (h *Test) MainExecutable(unit string) string {
	h.t.Helper()
	pid := h.Show(unit, "MainPID")
	if pid == "0" {
		return ""
	}
	r := h.Try("readlink", "/proc/"+pid+"/exe")
	return strings.TrimSpace(r.Stdout)
}

// Log returns the journal of a unit.
func (h *Test) Log(unit string) string {
	h.t.Helper()
	text, err := h.Host.Journal(h.t.Context(), unit)
	h.check(err)
	return text
}

// Tree takes a snapshot.
func (h *Test) Tree(paths ...string) Snapshot {
	h.t.Helper()
	s, err := h.Snapshot(paths...)
	h.check(err)
	return s
}

// Unchanged fails the test if the trees differ, except below the given paths.
func (h *Test) Unchanged(before, after Snapshot, except ...string) {
	h.t.Helper()
	if diff := before.Without(except...).Diff(after.Without(except...)); len(diff) > 0 {
		h.t.Errorf("%s changed:\n%s", h.Name, strings.Join(diff, "\n"))
	}
}

// Background starts a command that the end of the test kills.
func (h *Test) Background(c Command) *Process {
	h.t.Helper()
	p, err := h.Start(h.t.Context(), c)
	h.check(err)
	return p
}

func (h *Test) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// Patience is how long anything may take that has to happen: a busy machine may
// keep a process waiting for seconds, and its disk for longer.
const Patience = 3 * time.Minute

// Wait polls until cond returns nil, and fails the test with its last error when
// that takes longer than the limit, or than Patience where that is longer.
func Wait(t testing.TB, limit time.Duration, cond func() error) {
	t.Helper()
	limit = max(limit, Patience)
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		err := cond()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", limit, err)
		}
	}
}

// Share lets so many tests of hosts share a processor, unless -parallel says
// otherwise: hosts wait far more than they compute. It belongs into TestMain,
// before Main.
func Share(testsPerProcessor int) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		flag.Set("test.parallel", strconv.Itoa(testsPerProcessor*runtime.GOMAXPROCS(0)))
	}
}

// Main is for a TestMain: it builds the programs before the first test, removes
// what killed runs left behind, and runs the tests.
//
//	func TestMain(m *testing.M) { os.Exit(host.Main(m, host.Updater(), host.Find(), host.Agent())) }
func Main(m *testing.M, programs ...Program) int {
	for _, p := range programs {
		if _, err := Build(context.Background(), p); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if os.Geteuid() == 0 {
		// Where that fails, the first test says why.
		_ = EnsureTools(context.Background())
		if err := Sweep(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
