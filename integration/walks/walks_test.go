//go:build hosts

package walks

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/integration/host"
	"teleport-update/integration/sample"
)

var (
	seedFlag  = flag.Int64("seed", -1, "replay the walk of this seed alone, and tell all its steps")
	walksFlag = flag.Int("walks", 0, "how many walks, the seed of the last one new each time; 0: 20, or 500 with FAULTS=all")
	stepsFlag = flag.Int("steps", 12, "commands of a walk")
	fromFlag  = flag.Int64("from", 1, "the first seed")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(insideVariable) == "" {
		os.Exit(outside())
	}
	if err := inside(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(host.Main(m, host.Updater()))
}

func TestRandomWalksKeepThePromise(t *testing.T) {
	updater, err := host.Build(t.Context(), host.Updater())
	if err != nil {
		t.Fatal(err)
	}
	if *seedFlag >= 0 {
		walkOn(t, updater, uint64(*seedFlag), &Tally{})
		return
	}
	some := sample.Whole()
	if *walksFlag == 0 {
		some = sample.Within(5 * time.Minute) // an ordinary machine needs one
		*walksFlag = 20
		if os.Getenv("FAULTS") == "all" {
			*walksFlag = 500
		}
	}
	var mu sync.Mutex
	var sum Tally
	violations := 0
	walks := 0
	some.Among(*walksFlag)
	t.Run("seeds", func(t *testing.T) {
		for n := range *walksFlag {
			seed := uint64(*fromFlag) + uint64(n)
			if n == *walksFlag-1 {
				seed = rand.Uint64N(1 << 40)
			}
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				if !some.Next() {
					return
				}
				var tally Tally
				walkOn(t, updater, seed, &tally)
				mu.Lock()
				defer mu.Unlock()
				walks++
				sum.add(tally)
				if t.Failed() {
					violations++
				}
			})
		}
	})
	t.Logf("random walks: %d (%d commands, %d of them with exit code 0; %d kills, %d with others at work, %d changes of version, %d databases restored), violations: %d%s",
		walks, sum.Commands, sum.Succeeded, sum.Kills, sum.Others, sum.Transactions, sum.Restores, violations, some.Cut())
	t.Log(sum.actions())
	if walks >= 20 && (sum.Kills == 0 || sum.Others == 0 || sum.Restores == 0 || sum.Succeeded < sum.Commands/3) {
		t.Errorf("these walks show little: %+v", sum)
	}
}

func (t *Tally) add(u Tally) {
	t.Commands += u.Commands
	t.Succeeded += u.Succeeded
	t.Kills += u.Kills
	t.Others += u.Others
	t.Transactions += u.Transactions
	t.Restores += u.Restores
	if t.Done == nil {
		t.Done = map[Other]int{}
	}
	for o, n := range u.Done {
		t.Done[o] += n
	}
}

// actions tells how often each was done, and which was not.
func (t *Tally) actions() string {
	var did, not []string
	for _, o := range Others() {
		if n := t.Done[o]; n > 0 {
			did = append(did, fmt.Sprintf("%d x %s", n, o))
		} else {
			not = append(not, string(o))
		}
	}
	return fmt.Sprintf("actions of others: %d of %d kinds\ndone: %s\nnot done: %s", len(did), len(did)+len(not), strings.Join(did, "; "), strings.Join(not, "; "))
}

// walkOn walks, and cuts a walk that found a violation down to what is needed
// for it.
func walkOn(t *testing.T, updater string, seed uint64, tally *Tally) {
	dir := filepath.Join(memory, fmt.Sprint(seed))
	defer os.RemoveAll(dir)
	before, steps := Plan(seed, Options{Steps: *stepsFlag, Kills: true, Others: true})
	n := 0
	try := func(steps []Step) (*Violation, []string) {
		n++
		at := filepath.Join(dir, fmt.Sprint(n))
		defer os.RemoveAll(at)
		v, log, err := Walk(t.Context(), at, updater, before, steps, tally)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(log, "\n"))
		}
		return v, log
	}
	v, log := try(steps)
	if *seedFlag >= 0 {
		t.Logf("agent before: %q\n%s", before, strings.Join(log, "\n"))
	}
	if v == nil {
		return
	}
	shortest, what := log, v.What
	steps = steps[:min(v.At+1, len(steps))]
	for i := len(steps) - 1; i >= 0 && n < 60; i-- {
		fewer := append(append([]Step{}, steps[:i]...), steps[i+1:]...)
		if v, log := try(fewer); v != nil {
			steps, shortest, what = fewer, log, v.What
		}
	}
	t.Errorf("seed %d, agent before: %q\n%s\n\nafter which:\n%s\n\nreplay: go test -tags hosts ./integration/walks -seed %d",
		seed, before, strings.Join(shortest, "\n"), what, seed)
}
