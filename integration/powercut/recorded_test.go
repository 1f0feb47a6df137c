//go:build hosts

package powercut_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"teleport-update/integration/faults"
	"teleport-update/integration/powercut"
	"teleport-update/integration/powercut/blocklog"
	"teleport-update/integration/trace"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "lose the same writes as the run that printed this seed")
	stateFlag = flag.Int("state", -1, "look at this state of the disk alone; give the scene and the file system with -run")
)

// On a recorded disk (package blocklog): one run of each scene, and from its log
// every state that the disk went through, and such in which the drive lost a part
// of what it had not been told to flush.
func TestEveryStateThatTheDiskWentThroughIsOneWholeVersion(t *testing.T) {
	require(t, blocklog.Available())
	if !full {
		t.Skip("this campaign is for the night: `make test-nightly` runs it")
	}
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	var states, lossy, violations atomic.Int64
	t.Cleanup(func() {
		line := fmt.Sprintf("disk states: %d (of them with lost writes %d; seed %d), violations: %d", states.Load(), lossy.Load(), seed, violations.Load())
		t.Log(line)
	})
	for _, scene := range faults.Scenes() {
		t.Run(scene.Name, func(t *testing.T) {
			for _, l := range layouts[:2] {
				t.Run(l.name, func(t *testing.T) {
					t.Parallel()
					b := setUp(t, scene, l)
					r := record(t, b)
					for n := len(r.log); n > 0; n -= *everyFlag {
						if *stateFlag >= 0 && *stateFlag != n {
							continue
						}
						for _, lose := range r.ways(n) {
							// Each state's losses come from the seed and its own
							// numbers, so that one can be had without the others.
							random := rand.New(rand.NewPCG(seed, uint64(n)))
							problems, err := r.look(t, b, n, lose, random)
							must(t, err)
							states.Add(1)
							if lose {
								lossy.Add(1)
							}
							if len(problems) > 0 {
								violations.Add(1)
								t.Errorf("state %d of %d (writes lost: %t), after %s: %s\nagain: FAULTS=all go test -tags hosts ./integration/powercut -run '%s' -state %d -seed %d",
									n, len(r.log), lose, r.during(n), strings.Join(problems, "\n\t"), t.Name(), n, seed)
							}
						}
					}
				})
			}
		})
	}
}

// recording is one run of a scene on a recorded disk.
type recording struct {
	log   blocklog.Log
	calls []mark
	end   int // the position when the updater had ended
}

// mark is a call of the updater, and the position of the log when it returned.
type mark struct {
	position int
	call     string
}

func record(t *testing.T, b *bench) *recording {
	t.Helper()
	d := b.disks[0]
	disk, err := blocklog.Record(d.template, filepath.Join(b.dir, "recorded"))
	must(t, err)
	image := d.Image
	d.Image = disk.Image()
	defer func() { d.Image = image }()
	must(t, d.Mount())
	r := &recording{}
	result, err := b.traced(t, 0, func(c trace.Call) trace.Action {
		if c.Exit {
			r.calls = append(r.calls, mark{disk.Now(), c.String()})
		}
		return trace.GoOn()
	})
	must(t, err)
	r.end = disk.Now()
	must(t, d.Cut())
	must(t, d.Unmount())
	r.log, err = disk.Close()
	must(t, err)
	if result.ExitCode != 0 {
		t.Fatalf("undisturbed, it ended with exit code %d: %s", result.ExitCode, result.Stderr)
	}
	return r
}

// ways says whether writes are lost in the states that are made for a position.
// The disk just before a flush, with all that was written: that is what the one
// after it begins with. Between two flushes any part of what was written may be
// there, what came first being but one of them.
func (r *recording) ways(n int) []bool {
	switch {
	case r.log.Safe(n) == n:
		return []bool{false}
	case n == len(r.log) || r.log[n].Flush:
		return []bool{false, true}
	}
	return []bool{true}
}

// during names the last call that had returned at a position of the log.
func (r *recording) during(n int) string {
	last := "the start"
	for _, m := range r.calls {
		if m.position > n {
			break
		}
		last = m.call
	}
	return last
}

// look makes the disk as it was at a position, with everything that was written
// until then or without a random part of what was not flushed; mounts it and
// judges what comes up.
func (r *recording) look(t *testing.T, b *bench, n int, lose bool, random *rand.Rand) (problems []string, err error) {
	d := b.disks[0]
	if err := powercut.Copy(d.template, d.Image); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.Image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// Sometimes nearly all is lost, sometimes nearly nothing.
	share := random.Float64()
	keep := func() bool { return !lose || random.Float64() < share }
	safe := r.log.Safe(n)
	if err := r.log.Apply(f, 0, safe); err != nil {
		return nil, err
	}
	if err := r.log.ApplySome(f, safe, n, keep); err != nil {
		return nil, err
	}
	if err := d.Mount(); err != nil {
		return []string{err.Error()}, nil
	}
	defer func() {
		if e := d.Unmount(); err == nil {
			err = e
		}
	}()
	if n >= r.end {
		problems = b.done()
	}
	more, err := b.judge(t)
	return append(problems, more...), err
}
