//go:build hosts

package order

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/integration/host"
	"teleport-update/integration/trace"
)

// staged is a host on which one command after another is recorded.
type staged struct {
	*testing.T
	h     *machine
	out   Outside
	timer bool // its commands are the timer's
}

func stage(t *testing.T, agentBefore string) *staged {
	updater, err := host.Build(t.Context(), host.Updater())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(memory, strings.ReplaceAll(t.Name(), "/", "-"))
	h, err := newMachine(dir, updater, agentBefore)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		os.RemoveAll(dir)
	})
	return &staged{T: t, h: h, out: quiet()}
}

// wants has the cluster want a version, and an agent write before it comes.
func (s *staged) wants(v string) {
	s.out.Target.Version = v
	s.h.set(s.out)
}

// brings has the cluster want a version that comes with an updater.
func (s *staged) brings(v string) {
	r := Release{Version: v, Edition: s.out.Target.Edition}
	s.out.Shelves[r] = Shelf{Build: Build{Release: r, Runs: true, Updater: s.h.updater}}
	s.wants(v)
}

func (s *staged) agent(schema int) {
	s.Helper()
	if err := s.h.agent(schema); err != nil {
		s.Fatalf("the agent did not run: %v", err)
	}
}

// enabled enables a version, and has its agent write.
func (s *staged) enabled(v string, schema int) {
	s.Helper()
	s.wants(v)
	s.must("enable")
	s.agent(schema)
}

// must runs a command that has to end well. In which order it does things is not
// looked at, whether they are on stable storage is.
func (s *staged) must(args ...string) {
	s.Helper()
	s.run(0, "", args)
}

// cutAt runs a command and kills it as soon as something happened.
func (s *staged) cutAt(event string, args ...string) {
	s.Helper()
	rec := newRecorder(s.h)
	r, err := trace.Run(s.Context(), trace.Command{Argv: s.h.argv(args...), Env: s.h.env(false)}, func(c trace.Call) trace.Action {
		rec.watch(c)
		if n := len(rec.Events); n > 0 && undigested(rec.Events[n-1]) == event {
			return trace.Kill()
		}
		return trace.GoOn()
	})
	if err != nil || !r.Killed {
		s.Fatalf("%v: was not killed at %q: %v, it did\n%s\n%s", args, event, err, strings.Join(rec.Events, "\n"), r.Stderr)
	}
}

// does runs a command and compares what it did, in order, and complains about
// what was not on stable storage when it had to be.
func (s *staged) does(args []string, want ...string) {
	s.Helper()
	s.ends(0, "", args, want...)
}

// ends is does for a command that ends with an exit code, and says something.
func (s *staged) ends(code int, says string, args []string, want ...string) {
	s.Helper()
	if got := s.run(code, says, args); !slices.Equal(got, want) {
		s.Errorf("%v did\n\t%s\nwant\n\t%s", args, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func (s *staged) run(code int, says string, args []string) (events []string) {
	s.Helper()
	rec := newRecorder(s.h)
	r, err := trace.Run(context.Background(), trace.Command{Argv: s.h.argv(args...), Env: s.h.env(s.timer)}, rec.watch)
	rec.end()
	if err != nil || r.ExitCode != code || !strings.Contains(string(r.Stderr), says) {
		s.Fatalf("%v: exit code %d, %v; want %d and %q\n%s", args, r.ExitCode, err, code, says, r.Stderr)
	}
	if len(rec.Loose) > 0 {
		s.Errorf("%v: a power cut could take away:\n%s", args, strings.Join(rec.Loose, "\n"))
	}
	for _, e := range rec.Events {
		events = append(events, undigested(e))
	}
	return events
}

// undigested leaves out the digest in the name of a copy.
func undigested(event string) string {
	name, _, ok := strings.Cut(event, "-")
	if ok && (strings.HasPrefix(event, "put original/") || strings.HasPrefix(event, "drop original/")) {
		return name + "-*"
	}
	return event
}

// remove takes away what somebody else would.
func (s *staged) remove(paths ...string) {
	s.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			s.Fatal(err)
		}
	}
}

func args(a ...string) []string { return a }

// A recipe of lists: what was written above, and then more.
func then(first []string, more ...string) []string { return append(slices.Clone(first), more...) }
