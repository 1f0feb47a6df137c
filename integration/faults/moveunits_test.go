//go:build hosts

package faults

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/trace"
	"teleport-update/internal/layout"
)

// ownUnits are enabled by the links that have their names.
var ownUnits = map[string]string{
	"teleport.service": "multi-user.target.wants", "teleport-update-recover.service": "multi-user.target.wants",
	"teleport-update.timer": "timers.target.wants", "teleport-update.service": "",
}

// unitsIn says what keeps a folder from being one from which systemd starts the agent, the timer and
// the recovery.
func unitsIn(dir string) (problems []string) {
	for name, wants := range ownUnits {
		if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(content) == 0 {
			problems = append(problems, fmt.Sprintf("%s: %d bytes, %v", name, len(content), err))
		}
		if _, err := os.Stat(filepath.Join(dir, wants, name)); wants != "" && err != nil {
			problems = append(problems, name+" is not enabled: "+err.Error())
		}
	}
	return problems
}

// unitsLeftIn are the files below a folder that are of the updater or its agent.
func unitsLeftIn(t *testing.T, dir string) (left []string) {
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != dir && strings.Contains(e.Name(), "teleport") {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return left
}

// Units that move into another folder are killed at any call: at each one a folder has all of them, and
// the next run, by the units of either folder, completes the move.
func TestAKilledMoveOfUnitsLeavesUnitsThatWork(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	from, to := w.Units, w.below(layout.ConfigDir)
	if err := prepareMove(ctx, w); err != nil {
		t.Fatal(err)
	}
	saved, err := w.save("before")
	if err != nil {
		t.Fatal(err)
	}
	s := &Stage{World: w, Scene: Scene{Wanted: V1}, before: saved}
	enable := append([]string{"--unit-dir", to}, w.Enable()...)
	calls, err := s.count(ctx, enable)
	if err != nil {
		t.Fatal(err)
	}
	points := pointsOf(calls)
	if *pointFlag != "" {
		if points, err = parsePoints(*pointFlag); err != nil {
			t.Fatal(err)
		}
	} else if !whole {
		points = some(points, 30)
	}
	killed := 0
	for _, p := range points {
		if err := s.Restore(); err != nil {
			t.Fatal(err)
		}
		var hit trace.Call
		r, err := p.kill(ctx, s.Command(enable...), &hit)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Killed {
			continue
		}
		killed++
		if old, is := unitsIn(from), unitsIn(to); len(old) > 0 && len(is) > 0 {
			t.Errorf("killed at %v: no folder has all units: %v; %v (-point %s)", hit, old, is, p)
		}
		if w.Units = from; p.index%2 == 0 || len(unitsIn(from)) > 0 {
			w.Units = to // the old timer starts nothing any more
		}
		err = w.Must(ctx, "update")
		w.Units = to
		if err == nil && len(unitsIn(to)) > 0 {
			err = w.Must(ctx, w.Enable()...) // killed before the move began
		}
		if problems := unitsIn(to); err != nil || len(problems) > 0 {
			t.Errorf("killed at %v: the next run: %v; %v (-point %s)", hit, err, problems, p)
		}
		if left := unitsLeftIn(t, from); len(left) > 0 {
			t.Errorf("killed at %v: the old folder has %v (-point %s)", hit, left, p)
		}
		w.Units = from
	}
	fmt.Printf("kill points of a move of units: %d of %d calls\n", killed, calls)
	if killed == 0 {
		t.Error("nothing was killed")
	}
}

// prepareMove makes a host whose agent is enabled.
func prepareMove(ctx context.Context, w *World) error {
	if err := w.put(false); err != nil {
		return err
	}
	if err := w.Reset(); err != nil {
		return err
	}
	if err := w.climb(ctx, V1); err != nil {
		return err
	}
	wants := filepath.Join(w.Units, "multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	return os.Symlink(w.UnitFile(), filepath.Join(wants, "teleport.service"))
}
