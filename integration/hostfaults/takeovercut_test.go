//go:build hosts

package hostfaults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/sample"
	"teleport-update/integration/scenes"
	"teleport-update/ospackage"
	"teleport-update/versions"
)

// The power of whole hosts is cut at calls of take-overs, by chance which: of the
// updater, of dpkg, of the package's scripts. What was not synced is lost. Each time
// the host boots with its agent, and the next run takes the package away for good.
func TestPowerCutsOfTakeOvers(t *testing.T) {
	t.Parallel()
	var cuts, violations atomic.Int64
	hosts, each := 1, 4
	if everything {
		hosts, each = 4, 15
	}
	seed := sample.Seed()
	c := takeOver("", ospackage.Deb)
	c.trees = &trees{dir: t.TempDir(), all: map[string]versions.Tree{}}
	begun := time.Now()
	t.Run("on", func(t *testing.T) {
		for n := range hosts {
			t.Run(fmt.Sprintf("host %d", n+1), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(n)))
				w := newTakenHost(t, c, host.Options{Disk: true})
				calls := 250 // about as many as a take-over has; see below
				for turn := range each {
					command := []string{"recover"}
					if turn > 0 {
						// One that comes again is taken over again.
						w.Apt("install", "-o", "Dpkg::Options::=--force-confold", "teleport")
						w.Must("rm", "-f", scenes.FiredFile)
						w.Must(updater, "update")
						w.rows = w.Grows(0)
						command = []string{"enable", "--health-window", "1s"}
					}
					w.Must("sync") // what a person did is not ours to keep
					r := w.endAt(point{call: 1 + random.IntN(calls), exit: random.IntN(2) > 0, cut: true}, "", command[0], command[1:]...)
					if !r.Killed {
						calls = r.Calls // it was over before; the last calls are worth trying, too
						continue
					}
					cuts.Add(1)
					t.Logf("cut in turn %d, %s", turn, r.At)
					if problems := w.afterCut(command); problems != nil {
						violations.Add(1)
						t.Errorf("VIOLATION in turn %d, %s: %s", turn, r.At, strings.Join(problems, "; "))
						return
					}
				}
			})
		}
	})
	t.Logf("whole-host cuts in take-overs: %d, violations: %d, in %v", cuts.Load(), violations.Load(), time.Since(begun).Round(time.Second))
}

// afterCut ends the host, whose disk was stopped, and sees what becomes of it.
func (w *sweptHost) afterCut(command []string) (problems []string) {
	w.Check(w.CutPower(w.T.Context()))
	w.Check(w.Boot(w.T.Context()))
	if _, problems := w.whole(afterBoot); problems != nil {
		return append(problems, "after the boot")
	}
	if w.Phase() == "" && w.packageState() == "installed" {
		// Cut before anything was begun: who asked for it asks again.
		w.Must(append([]string{updater}, command...)...)
	}
	if r := w.Try(updater, "update"); r.Code != 0 {
		return []string{fmt.Sprintf("the next run ends with %d: %s", r.Code, r.Stderr)}
	}
	if _, problems = w.whole(afterRun); problems == nil {
		problems = append(w.leftovers(), w.packageIsGone()...)
	}
	if problems != nil {
		return append(problems, "after the next run")
	}
	return nil
}
