//go:build hosts

package hostfaults

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/sample"
	"teleport-update/versions"
)

// The power of hosts is cut while another updater is replaced, at calls by chance: what
// was not synced is lost. The boot ends, by itself, with an agent and with one updater:
// theirs as it was, or ours. Whoever asked for it then asks again.
func TestPowerCutsOfReplacements(t *testing.T) {
	t.Parallel()
	var cuts, violations atomic.Int64
	seed := sample.Seed()
	origins, hosts, each := []*origin{&teleportsUpdater, &teleportUpgrade}, 2, 25
	if !everything {
		origins, hosts, each = origins[seed%2:][:1], 1, 3
	}
	begun := time.Now()
	t.Run("on", func(t *testing.T) {
		for i, o := range origins {
			c := o.replacement()
			c.trees = &trees{dir: t.TempDir(), all: map[string]versions.Tree{}}
			for n := range hosts {
				t.Run(fmt.Sprintf("%s, host %d", o.name, n+1), func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, uint64(i*hosts+n)))
					w := newReplacedHost(t, c, host.Options{Disk: true})
					w.reset()
					calls := w.endAt(point{call: math.MaxInt32}, w.request, "switch").Calls
					for turn := range each {
						w.reset()
						w.Must("sync") // what a person did is not ours to keep
						r := w.endAt(point{call: 1 + random.IntN(calls), exit: random.IntN(2) > 0, cut: true}, w.request, "switch")
						if !r.Killed {
							continue // runs differ by a few calls
						}
						cuts.Add(1)
						t.Logf("cut in turn %d, %s", turn, r.At)
						if problems := w.afterReplacementsCut(); problems != nil {
							violations.Add(1)
							t.Errorf("VIOLATION in turn %d, %s: %s", turn, r.At, strings.Join(problems, "; "))
							return
						}
					}
				})
			}
		}
	})
	t.Logf("whole-host cuts in replacements of updaters: %d, violations: %d, in %v", cuts.Load(), violations.Load(), time.Since(begun).Round(time.Second))
}

// afterReplacementsCut ends the host, whose disk was stopped, and sees what becomes of it.
func (w *sweptHost) afterReplacementsCut() (problems []string) {
	w.Check(w.CutPower(w.T.Context()))
	w.Check(w.Boot(w.T.Context()))
	v, problems := w.whole(afterBoot)
	if problems != nil {
		return append(problems, "after the boot")
	}
	if r := w.Try(append([]string{updater}, w.asksAgain(v)...)...); r.Code != 0 {
		return []string{fmt.Sprintf("the next run ends with %d: %s", r.Code, r.Stderr)}
	}
	if v, problems = w.whole(afterRun); problems == nil {
		problems = w.leftovers()
	}
	if v != w.to.Version {
		problems = append(problems, "the host is on "+v)
	}
	if problems != nil {
		return append(problems, "after the next run")
	}
	return nil
}
