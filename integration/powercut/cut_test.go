//go:build hosts

package powercut_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/faults"
	"teleport-update/integration/sample"
	"teleport-update/integration/trace"
)

var (
	pointFlag = flag.Int("point", 0, "cut at this call alone; give the scene and the file systems with -run")
	everyFlag = flag.Int("every", 1, "cut at every `N`th call, and look at every Nth state of a disk, only")
)

// share is the part of the sweep that always runs: the scene, and of its calls
// on each layout every so many.
var share = struct {
	scene string
	every map[string]int
}{"update", map[string]int{"one ext4": 1, "one xfs": 4, "state on ext4, links on xfs": 4}}

// stride is how many calls of a scene on a layout lie between two cuts; 0 for
// no cut at all.
func stride(scene faults.Scene, l layout) int {
	switch {
	case *pointFlag != 0:
		return 1
	case full:
		return l.stride * *everyFlag
	case scene.Name == share.scene:
		return *everyFlag * share.every[l.name]
	}
	return 0
}

// budget is for the calls of a scene on a layout, of which an ordinary machine has a part in less than two minutes.
const budget = 6 * time.Minute

// tally counts the cuts of a campaign.
type tally struct {
	ext4, xfs, two, violations atomic.Int64

	mu  sync.Mutex
	cut string // what a slow machine left out
}

func (c *tally) add(l layout, n int64) {
	switch l.name {
	case "one ext4":
		c.ext4.Add(n)
	case "one xfs":
		c.xfs.Add(n)
	default:
		c.two.Add(n)
	}
}

func (c *tally) leaveOut(some *sample.Sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut += some.Cut()
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ext4, xfs, two := c.ext4.Load(), c.xfs.Load(), c.two.Load()
	return fmt.Sprintf("power cuts: %d (ext4 %d, xfs %d, two file systems %d; and one after each boot, recovery and run that followed), violations: %d%s",
		ext4+xfs+two, ext4, xfs, two, c.violations.Load(), c.cut)
}

// In each scene of package faults the updater runs on file systems of its own and
// is stopped after each of its calls in turn. There the power is cut; the file
// systems come up again, as at the next boot; the recovery runs as its unit runs
// it before the agent starts. Then one version must be there, whole, with its
// links, its unit and its database: the one before or the one after. The next
// ordinary run must bring the host to where it would be had nothing happened. Each
// of these outcomes is put to the test by one more cut before it is looked at:
// what a recovery or a finished run has not made durable does not count.
func TestAPowerCutAfterAnyCallLeavesOneWholeVersion(t *testing.T) {
	require(t)
	var count tally
	t.Cleanup(func() { t.Log(count.String()) })
	for _, scene := range faults.Scenes() {
		t.Run(scene.Name, func(t *testing.T) {
			t.Parallel() // else each scene waits for the longest layout of the one before
			for _, l := range layouts {
				if stride(scene, l) == 0 {
					continue
				}
				t.Run(l.name, func(t *testing.T) {
					t.Parallel()
					cutEverywhere(t, scene, l, &count)
				})
			}
		})
	}
}

// cutEverywhere cuts after each call of the scene in turn, and after its end.
func cutEverywhere(t *testing.T, scene faults.Scene, l layout, count *tally) {
	b := setUp(t, scene, l)
	must(t, b.fresh())
	r, err := b.traced(t, 0, nil)
	must(t, err)
	must(t, b.unmount())
	if r.ExitCode != 0 {
		t.Fatalf("undisturbed, it ended with exit code %d: %s", r.ExitCode, r.Stderr)
	}
	// From the end on, so that the end is among them in any stride.
	var calls []int
	for n := r.Calls + 1 - l.skip; n > 0; n -= stride(scene, l) {
		if *pointFlag == 0 || *pointFlag == n {
			calls = append(calls, n)
		}
	}
	some := sample.Within(budget)
	if *everyFlag > 1 {
		some = sample.Whole()
	}
	some.Among(len(calls))
	defer func() { count.leaveOut(some) }()
	for _, n := range sample.Spread(calls) {
		if !some.Next() {
			return
		}
		at, problems, err := cutOnce(t, b, n)
		must(t, err)
		count.add(l, 1)
		if len(problems) > 0 {
			count.violations.Add(1)
			t.Errorf("cut after %s: %s\nagain: FAULTS=all go test -tags hosts ./integration/powercut -run '%s' -point %d",
				at, strings.Join(problems, "\n\t"), t.Name(), n)
		}
	}
}

// cutOnce cuts after the nth call, or after the end of the command if it makes
// fewer, and says where that was and what is wrong with the host then.
func cutOnce(t *testing.T, b *bench, n int) (at string, problems []string, err error) {
	if err := b.fresh(); err != nil {
		return "", nil, err
	}
	defer func() {
		if e := b.unmount(); err == nil {
			err = e
		}
	}()
	at = "the end"
	r, err := b.traced(t, n, func(c trace.Call) trace.Action {
		if !c.Exit {
			return trace.GoOn()
		}
		at = c.String()
		return trace.KillAfter(b.cut)
	})
	if err != nil {
		return at, nil, err
	}
	if !r.Killed {
		if err := b.cut(); err != nil {
			return at, nil, err
		}
	}
	if err := b.back(); err != nil {
		return at, nil, err
	}
	if !r.Killed {
		problems = b.done()
	}
	more, err := b.judge(t)
	return at, append(problems, more...), err
}
