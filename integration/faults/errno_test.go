//go:build hosts

package faults

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"teleport-update/integration/trace"
)

// failure is an error that a call returns, once or from there on.
type failure struct {
	call    int
	name    string
	errno   syscall.Errno
	forever bool
}

func (f failure) kind() string {
	if f.forever {
		return f.name + "+"
	}
	return f.name
}

// errnos are the errors of a disk that is full, broken, read-only or rationed.
var errnos = map[string]syscall.Errno{
	"ENOSPC": syscall.ENOSPC, "EIO": syscall.EIO, "EROFS": syscall.EROFS, "EDQUOT": syscall.EDQUOT,
}

// allocates are calls that can find a disk full; the others go on working on one
// that is.
func allocates(name string) bool {
	switch name {
	case "unlinkat", "unlink", "rmdir", "fchmod", "fchmodat", "fchown", "fchownat", "ftruncate":
		return false
	}
	return true
}

func (f failure) decide(hit *trace.Call) func(trace.Call) trace.Action {
	return func(c trace.Call) trace.Action {
		switch {
		case c.Exit, c.Index < f.call, c.Index > f.call && !f.forever:
			return trace.GoOn()
		case (f.errno == syscall.ENOSPC || f.errno == syscall.EDQUOT) && !allocates(c.Name):
			return trace.GoOn()
		}
		if hit.Index == 0 {
			*hit = c
		}
		return trace.Fail(f.errno)
	}
}

// failuresOf lists one failure of every call; the errors take turns, and so do
// once and from there on. Each round begins with another.
func failuresOf(calls, rounds int) []failure {
	var list []failure
	names := []string{"ENOSPC", "EIO", "EROFS", "EDQUOT"}
	for round := range rounds {
		for i := 1; i <= calls; i++ {
			turn := i + 3*round
			name := names[turn%len(names)]
			list = append(list, failure{i, name, errnos[name], turn/len(names)%2 == 1})
		}
	}
	return list
}

// An error of the disk, once or from some call on, never leaves a mixed version
// behind while it lasts that a recovery after it does not make whole, and never
// goes unreported: the exit code is not 0, or all is well.
func TestAnErrorOfTheDiskIsReportedAndUndone(t *testing.T) {
	s := newSweep(t)
	defer s.report("errno faults")
	for _, scene := range s.scenes() {
		each(s, scene, func(stage *Stage) ([]failure, error) {
			if *pointFlag != "" {
				p, err := parsePoint(*pointFlag)
				name, forever := strings.CutSuffix(*errnoFlag, "+")
				return []failure{{p.index, name, errnos[name], forever}}, err
			}
			calls, err := stage.count(t.Context(), stage.Args(stage.World))
			rounds := 1
			if scene.Name == "update" {
				rounds = 3
			}
			return some(failuresOf(calls, rounds), 8), err
		}, func(stage *Stage, f failure) error {
			if err := stage.Restore(); err != nil {
				return err
			}
			var hit trace.Call
			r, err := trace.Run(t.Context(), stage.Command(stage.Args(stage.World)...), f.decide(&hit))
			if err != nil || hit.Index == 0 {
				return err
			}
			s.points.Add(1)
			problems, err := stage.afterErrors(t.Context(), r)
			s.violated(scene, fmt.Sprintf("%s of %v, exit code %d: %s%s", f.kind(), hit, r.ExitCode, r.Stdout, r.Stderr), problems,
				"-point", fmt.Sprint(f.call), "-errno", f.kind())
			return err
		})
	}
}

// afterErrors checks a host whose disk returned errors and works again.
func (s *Stage) afterErrors(ctx context.Context, r trace.Result) ([]string, error) {
	var problems []string
	switch {
	case r.ExitCode == 0:
		// Then all is well, but perhaps for what may be put off.
		got, err := s.Look()
		if err != nil {
			return nil, err
		}
		if got != s.After || len(s.Closed()) > 0 {
			problems = append(problems, fmt.Sprintf("the exit code is 0, but %v; want %v %v", got, s.After, s.Closed()))
		}
	case r.ExitCode < 0:
		problems = append(problems, fmt.Sprintf("it died of signal %v", r.Signal))
	case len(s.Closed()) == 0:
		// What it says is undone must be undone.
		problems = append(problems, s.Whole()...)
	}
	s.noSchema = strings.Contains(string(r.Stderr), "the schema of the agent's database is not noted")
	more, err := s.aftermath(ctx, false, true)
	s.noSchema = false
	return append(problems, more...), err
}
