//go:build hosts

package hostfaults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/agent/stamp"
	"teleport-update/integration/host"
	"teleport-update/integration/release"
	"teleport-update/integration/sample"
)

// The power of whole hosts is cut in the middle of updates, downgrades and
// updates to a version that fails: what was not synced is lost. Each time the host
// boots with an agent that works, on one whole version with its own database, and
// the next run brings it where the cluster wants it.
func TestPowerCutsOfWholeHosts(t *testing.T) {
	t.Parallel()
	var cuts, violations atomic.Int64
	hosts, each := 1, 6
	if everything {
		hosts, each = 4, 27
	}
	seed := sample.Seed()
	begun := time.Now()
	t.Run("on", func(t *testing.T) {
		for n := range hosts {
			t.Run(fmt.Sprintf("host %d", n+1), func(t *testing.T) {
				c := newCutHost(t, rand.New(rand.NewPCG(seed, uint64(n))), n)
				for range each {
					cuts.Add(1)
					if !c.round() {
						violations.Add(1)
						return
					}
				}
				t.Logf("cut while the transaction was %v", c.where)
			})
		}
	})
	t.Logf("whole-host cuts: %d, violations: %d, in %v", cuts.Load(), violations.Load(), time.Since(begun).Round(time.Second))
}

// cutHost is a host with a disk of its own that goes on from one cut to the next.
type cutHost struct {
	*sweptHost
	random *rand.Rand
	turn   int
	where  map[string]int // how far the transaction had come
}

const failing = "1.2.0"

func newCutHost(t *testing.T, random *rand.Rand, turn int) *cutHost {
	w := &sweptHost{scene: sceneOn(t, host.Options{Disk: true})}
	// A version that was left before has its own database again.
	w.prepare = func(*sweptHost) {}
	c := &cutHost{sweptHost: w, random: random, turn: turn, where: map[string]int{}}
	w.Release(release.Spec{Version: "1.0.0", Schema: 1})
	w.Release(release.Spec{Version: "1.1.0", Schema: 2})
	w.Release(release.Spec{Version: failing, Schema: 3, Variant: stamp.MigratesThenExits})
	w.Writes("wal", 20)
	w.RunsOn("1.0.0", "--health-window", "500ms")
	w.from = release.Spec{Version: "1.0.0", Schema: 1}
	w.Grows(5)
	w.Must("sync") // what a person did is not ours to keep
	return c
}

// round begins a transaction, cuts the power in the middle of it, and sees what
// becomes of the host. It reports whether all is well.
func (c *cutHost) round() bool {
	c.T.Helper()
	other := release.Spec{Version: "1.1.0", Schema: 2}
	if c.from.Version == other.Version {
		other = release.Spec{Version: "1.0.0", Schema: 1}
	}
	if c.turn++; c.turn%3 == 0 {
		other = release.Spec{Version: failing, Schema: 3}
	}
	c.to, c.healthy, c.kind = other, other.Version != failing, "update"
	c.rows = c.Grows(0)
	c.Wants(c.to.Version)

	update, err := c.Start(c.T.Context(), host.Command{Args: []string{updater, "update", "--now"}})
	if err != nil {
		c.T.Fatal(err)
	}
	plan, cutAt := c.awaitMoment(update)
	if err := c.CutPower(c.T.Context()); err != nil {
		c.T.Fatal(err)
	}
	update.Wait()
	c.where[cutAt]++
	if err := c.Boot(c.T.Context()); err != nil {
		c.T.Fatal(err)
	}
	broken := func(format string, args ...any) bool {
		c.T.Errorf("VIOLATION: %s to %s, cut %s (the transaction was %s): %s", c.from.Version, c.to.Version, plan, cutAt, fmt.Sprintf(format, args...))
		return false
	}
	if _, problems := c.whole(afterBoot); problems != nil {
		return broken("after the boot: %s", strings.Join(problems, "; "))
	}
	r := c.Try(updater, "update", "--now")
	if codes := c.codes(); !slices.Contains(codes, r.Code) {
		return broken("the next run ends with %d, want one of %v: %s", r.Code, codes, r.Stderr)
	}
	v, problems := c.whole(afterRun)
	if problems == nil {
		problems = c.leftovers()
	}
	if verify := c.Try(updater, "verify"); verify.Code != 0 {
		problems = append(problems, "verify: "+verify.Stdout+verify.Stderr)
	}
	if want := c.endsOn(); problems == nil && !slices.Contains(want, v) {
		problems = append(problems, fmt.Sprintf("the host is on %s; want it on %v", v, want))
	}
	if problems != nil {
		return broken("after the next run: %s", strings.Join(problems, "; "))
	}
	if c.healthy {
		c.from = c.to
	}
	return true
}

// awaitMoment waits for a phase of the transaction, and a little longer, both by
// chance; or for its end, if that comes first.
func (c *cutHost) awaitMoment(update *host.Process) (plan, phase string) {
	c.T.Helper()
	phases := []string{"", "begun", "switched", "proven"}
	if !c.healthy {
		phases = []string{"begun", "switched", "rolling_back", "restored"}
	}
	until := phases[c.random.IntN(len(phases))]
	longer := time.Duration(c.random.Int64N(int64(300 * time.Millisecond)))
	if until != "" {
		longer = longer * longer / (300 * time.Millisecond) // rather soon
	}
	for waits := true; waits && c.Phase() != until; {
		select {
		case <-update.Done():
			waits = false
		case <-time.After(time.Millisecond):
		}
	}
	time.Sleep(longer)
	if phase = c.Phase(); phase == "" {
		phase = "not open"
	}
	return fmt.Sprintf("%v after the phase %q", longer.Round(time.Millisecond), until), phase
}
