//go:build hosts

package findfaults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/driver"
	"teleport-update/integration/powercut"
	"teleport-update/integration/trace"
)

// noPowerCuts is why the test that cuts power is skipped.
var noPowerCuts error

func TestMain(m *testing.M) {
	noPowerCuts = powercut.OwnMounts()
	os.Exit(m.Run())
}

// every is at how many calls of the server one is a point: all of them with FAULTS=all.
func every(calls int) int {
	if os.Getenv("FAULTS") == "all" {
		return 1
	}
	return max(1, calls/5)
}

func TestTheServerKilledAtAWrite(t *testing.T) {
	sweep(t, "kills of the find server", func(t testing.TB) (string, func() error, func() error) {
		return filepath.Join(t.TempDir(), "disk"), nil, nil
	})
}

func TestThePowerCutAtAWriteOfTheServer(t *testing.T) {
	sweep(t, "power cuts under the find server", func(t testing.TB) (string, func() error, func() error) {
		disk := powercut.New(t, noPowerCuts)
		return disk.Dir, disk.Cut, disk.Restore
	})
}

// sweep ends a server at its calls, one after the other. place makes a folder for its store, and
// says how its power is cut and comes back; nil: it is killed.
func sweep(t *testing.T, what string, place func(testing.TB) (dir string, cut, restore func() error)) {
	dir, _, _ := place(t)
	w := begin(t, dir)
	whole, ended, err := w.serve(t.Context(), nil, w.story)
	if err != nil || !ended {
		t.Fatalf("without any fault: %v\n%s", err, whole.Stderr)
	}
	w.check(t, 0)
	points := 0
	var violations atomic.Int32
	t.Run("points", func(t *testing.T) {
		for at := 1; at <= whole.Calls; at += every(whole.Calls) {
			points++
			t.Run(strconv.Itoa(at), func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() {
					if t.Failed() {
						violations.Add(1)
					}
				})
				endAt(t, at, place)
			})
		}
	})
	t.Logf("%s: %d points of %d calls, violations: %d", what, points, whole.Calls, violations.Load())
}

func begin(t *testing.T, dir string) *world {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// endAt ends a server before one call, starts it again, and has it tell the rest.
func endAt(t *testing.T, at int, place func(testing.TB) (string, func() error, func() error)) {
	dir, cut, restore := place(t)
	w := begin(t, dir)
	var point trace.Call
	result, ended, err := w.serve(t.Context(), func(c trace.Call) trace.Action {
		if c.Index != at || c.Exit {
			return trace.GoOn()
		}
		point = c
		if cut == nil {
			return trace.Kill()
		}
		return trace.KillAfter(cut)
	}, w.story)
	if err != nil {
		t.Fatalf("%v at %v", err, point)
	}
	if ended && !result.Killed {
		return // this run had fewer calls
	}
	if restore != nil {
		if err := restore(); err != nil {
			t.Fatal(err)
		}
	}
	// A socket is left behind by whoever is killed.
	for _, again := range []string{"after the end", "and once more"} {
		result, ended, err := w.serve(t.Context(), nil, func(ctx context.Context) error {
			if err := w.known(ctx); err != nil {
				t.Errorf("%s at %v: %v", again, point, err)
				return nil
			}
			return w.story(ctx)
		})
		if err != nil || !ended {
			t.Fatalf("%s at %v: %v\n%s", again, point, err, result.Stderr)
		}
	}
	w.check(t, at)
}

// known returns what was acknowledged and is not there.
func (w *world) known(ctx context.Context) error {
	var errs []error
	for kind, acknowledged := range map[string]bool{rollout.KindConfig: w.applied, rollout.KindVersion: w.set} {
		var r json.RawMessage
		if err := w.admin(ctx, http.MethodGet, "/v1/resources/"+kind, nil, &r); err != nil && acknowledged {
			errs = append(errs, fmt.Errorf("%s was acknowledged: %w", kind, err))
		}
	}
	for _, h := range w.hosts {
		var known adminapi.Host
		err := w.admin(ctx, http.MethodGet, "/v1/hosts/"+h.id, nil, &known)
		// A report of the same version as before says nothing that could be lost.
		if h.joined && err != nil || h.acknowledged == target && known.Version != target {
			errs = append(errs, fmt.Errorf("host %s has joined, and has reported %q: %+v, %w", h.id, h.acknowledged, known, err))
		}
	}
	var o adminapi.Overview
	if err := w.admin(ctx, http.MethodGet, "/v1/overview", nil, &o); err != nil {
		return err
	}
	return errors.Join(append(errs, w.checkForward(o))...)
}

// check looks at the end of a story: all is done, each step was taken once, and hosts were told what a
// rollout names.
func (w *world) check(t *testing.T, at int) {
	t.Helper()
	var history adminapi.History
	_, ended, err := w.serve(t.Context(), nil, func(ctx context.Context) error {
		return w.admin(ctx, http.MethodGet, "/v1/history?limit=1000", nil, &history)
	})
	if err != nil || !ended {
		t.Fatal(err)
	}
	steps := make(map[string]int)
	for _, r := range history.Records {
		if r.Who != driver.EngineName || r.Key != rollout.KindRollout {
			continue
		}
		for step := range strings.SplitSeq(r.What, ", ") {
			if strings.Contains(step, "→") {
				steps[step]++
			}
		}
	}
	for step, times := range steps {
		if times != 1 {
			t.Errorf("after an end at %d, %q was done %d times", at, step, times)
		}
	}
	if len(steps) != 5 { // dev: canary, active, done; prod: active, done
		t.Errorf("after an end at %d the steps are %v", at, steps)
	}
	for v := range w.told {
		if v != before && v != target && v != "" {
			t.Errorf("a host was told %q", v)
		}
	}
	for _, h := range w.hosts {
		if h.version != target {
			t.Errorf("after all of it, host %s runs %s", h.id, h.version)
		}
	}
}
