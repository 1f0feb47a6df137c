//go:build hosts

package faults

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/sample"
	"teleport-update/integration/trace"
)

var (
	sceneFlag  = flag.String("scene", "", "only the scene of this `NAME`")
	pointFlag  = flag.String("point", "", "only this `POINT`, as in 12e (entry of call 12) or 12x (its exit), or all from one call to another, as in 12-20")
	secondFlag = flag.String("second", "", "of double faults, only this `POINT` of the recovery")
	bootFlag   = flag.Bool("boot", false, "of double faults, the recovery is the one at boot")
	denseFlag  = flag.Bool("dense", false, "without FAULTS=all, of kills: each point of an update, and always the same 14 of each other scene")
	errnoFlag  = flag.String("errno", "", "only this `ERROR`, as in ENOSPC, or ENOSPC+ for all calls from there on")
)

// whole says that everything is to be done, not only a share.
var whole = os.Getenv("FAULTS") == "all"

// point is one instant of a run: the entry or the exit of a call that counts.
type point struct {
	index int
	exit  bool
}

func (p point) String() string {
	if p.exit {
		return fmt.Sprintf("%dx", p.index)
	}
	return fmt.Sprintf("%de", p.index)
}

func parsePoint(s string) (p point, err error) {
	p.exit = strings.HasSuffix(s, "x")
	p.index, err = strconv.Atoi(strings.TrimRight(s, "ex"))
	return p, err
}

// parsePoints reads one point, or the first and the last of several, as in
// 120-150.
func parsePoints(s string) ([]point, error) {
	from, to, several := strings.Cut(s, "-")
	first, err := parsePoint(from)
	if err != nil || !several {
		return []point{first}, err
	}
	last, err := parsePoint(to)
	return pointsOf(last.index)[2*(first.index-1):], err
}

// kill runs a command and kills it at a point, and notes what was hit there.
func (p point) kill(ctx context.Context, c trace.Command, hit *trace.Call) (trace.Result, error) {
	c.At = p.index
	return trace.Run(ctx, c, func(call trace.Call) trace.Action {
		if call.Exit != p.exit {
			return trace.GoOn()
		}
		*hit = call
		return trace.Kill()
	})
}

// sweep counts what was tried and what went wrong, and says how to repeat it.
type sweep struct {
	t                  *testing.T
	test               string // its name, for go test -run
	worlds             []*World
	some               *sample.Sample
	notBegun           int // scenes, on a slow machine
	points, violations atomic.Int64
}

// budget is for a sweep of which an ordinary machine has a part in a minute and a half.
const budget = 4 * time.Minute

// worldDir is where a World is; the same in every World once it is left out.
var worldDir = regexp.MustCompile(`/\S*/faults-\d+`)

func newSweep(t *testing.T) *sweep {
	s := &sweep{t: t, test: t.Name(), some: sample.Within(budget)}
	if *denseFlag {
		s.some = sample.Whole()
	}
	// A run waits for nothing but its processor.
	for range runtime.GOMAXPROCS(0) {
		s.worlds = append(s.worlds, newWorld(t))
	}
	return s
}

// report prints the figures, in a line that can be found.
func (s *sweep) report(what string) {
	cut := s.some.Cut()
	if s.notBegun > 0 {
		cut += fmt.Sprintf(" in the scenes that were begun, and %d scenes were not", s.notBegun)
	}
	fmt.Printf("%s: %d, violations: %d%s\n", what, s.points.Load(), s.violations.Load(), cut)
	if !whole {
		s.t.Logf("a part of them; another: FAULTS_SEED=%d; all: FAULTS=all", sample.Seed()+1)
	}
}

// violated reports what is wrong after a fault; again are the flags that repeat
// it.
func (s *sweep) violated(scene Scene, fault string, problems []string, again ...string) {
	if len(problems) == 0 {
		return
	}
	s.violations.Add(1)
	for i := range problems {
		problems[i] = worldDir.ReplaceAllString(problems[i], "")
	}
	fault = worldDir.ReplaceAllString(fault, "")
	s.t.Errorf("VIOLATION in scene %q, %s:\n  %s\n  repeat: FAULTS=all go test -tags hosts -run '^%s$' ./integration/faults -scene '%s' %s",
		scene.Name, fault, strings.Join(problems, "\n  "), s.test, scene.Name, strings.Join(again, " "))
}

// scenes are those that were asked for. In an ordinary run: the update, and every second of the others,
// other ones each run.
func (s *sweep) scenes() []Scene {
	var list []Scene
	for i, scene := range Scenes() {
		turn := whole || *denseFlag || scene.Name == "update" || (uint64(i)+sample.Seed())%2 == 0
		if *sceneFlag == scene.Name || *sceneFlag == "" && turn {
			list = append(list, scene)
		}
	}
	if len(list) == 0 {
		s.t.Fatalf("there is no scene %q", *sceneFlag)
	}
	if whole || *denseFlag {
		return list
	}
	// What a slow machine leaves out are not always the same ones.
	first := int(sample.Seed() / 2 % uint64(len(list)))
	return slices.Concat(list[first:], list[:first])
}

// each lets every World play the scene and then call do with the jobs that list
// makes, each job once.
func each[Job any](s *sweep, scene Scene, list func(*Stage) ([]Job, error), do func(*Stage, Job) error) {
	s.t.Helper()
	if s.some.Over() {
		s.notBegun++
		return
	}
	jobs := make(chan Job)
	listed := make(chan struct{})
	var once sync.Once
	var feeding, all sync.WaitGroup
	fail := func(err error) { s.t.Errorf("scene %q: %v", scene.Name, err) }
	for _, w := range s.worlds {
		all.Go(func() {
			stage, err := w.Play(s.t.Context(), scene)
			if err != nil {
				fail(err)
			}
			once.Do(func() {
				var todo []Job
				if err == nil {
					if todo, err = list(stage); err != nil {
						fail(err)
					}
				}
				s.some.Among(len(todo))
				feeding.Go(func() {
					defer close(jobs)
					for _, job := range sample.Spread(todo) {
						if !s.some.Next() {
							return
						}
						jobs <- job
					}
				})
				close(listed)
			})
			<-listed
			for job := range jobs {
				if err != nil {
					continue
				}
				if err = do(stage, job); err != nil {
					fail(err)
				}
			}
		})
	}
	all.Wait()
	feeding.Wait()
}

// count returns how many calls of an undisturbed run count. The host is the
// prepared one afterwards.
func (s *Stage) count(ctx context.Context, args []string) (int, error) {
	r, err := trace.Run(ctx, s.Command(args...), nil)
	if err == nil && r.ExitCode != 0 {
		err = fmt.Errorf("%v: exit code %d under the tracer: %s", args, r.ExitCode, r.Stderr)
	}
	return r.Calls, err
}

// pointsOf lists every entry and every exit.
func pointsOf(calls int) []point {
	var points []point
	for i := 1; i <= calls; i++ {
		points = append(points, point{i, false}, point{i, true})
	}
	return points
}

// some is about n of a list, evenly, and other ones each run; all of it if the whole is
// to be done.
func some[T any](list []T, n int) []T {
	if whole || len(list) <= n {
		return list
	}
	first := int(sample.Seed() % uint64(len(list)))
	var few []T
	for i := range n {
		few = append(few, list[(first+i*len(list)/n)%len(list)])
	}
	return few
}

// thin leaves about n of a list, evenly.
func thin[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	few := make([]T, 0, n)
	for i := range n {
		few = append(few, list[i*len(list)/n])
	}
	return few
}

// aftermath recovers a host that a fault has hit, lets the next ordinary run
// pass, and returns all that is wrong. At boot, only files are put back; the
// next run closes the rest. After a failure the version may back off.
func (s *Stage) aftermath(ctx context.Context, boot, backsOff bool) ([]string, error) {
	args := []string{"recover"}
	if boot {
		args = append(args, "--boot")
	}
	var problems []string
	run := func(args []string) error {
		r, err := s.Run(ctx, args...)
		if err == nil && r.Code != 0 {
			problems = append(problems, fmt.Sprintf("%v: exit code %d: %s", args, r.Code, r.Output))
		}
		return err
	}
	if err := run(args); err != nil {
		return nil, err
	}
	problems = append(problems, s.Whole()...)
	if boot {
		if err := run([]string{"recover"}); err != nil {
			return nil, err
		}
		problems = append(problems, s.Whole()...)
	}
	problems = append(problems, s.Closed()...)
	got, err := s.Look()
	if err != nil {
		return nil, err
	}
	again := s.Again(s, got)
	if err := run(again); err != nil {
		return nil, err
	}
	if backsOff && got != s.After && again[0] == "update" {
		// An error counts against the version as any other does; a person can say
		// that it was mended.
		if err := run([]string{"update", "--now"}); err != nil {
			return nil, err
		}
	}
	return append(problems, s.Converged()...), nil
}
