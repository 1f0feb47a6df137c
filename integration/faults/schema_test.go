//go:build hosts

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/integration/host"
	"teleport-update/integration/trace"
)

// What an updater of one schema was killed in, one of another recovers, finishes and goes on
// from, in each phase: the recovery at boot is that of the package, and the next run that of
// the package or of the active version. The newer one's journals have a field that the older one
// does not know.
func TestAnUpdaterOfAnotherSchemaRescuesEachPhase(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can put a host's folders where another updater is looked for")
	}
	s := newSweep(t)
	defer s.report("rescues by another schema")
	program, err := host.NextUpdater(t.TempDir(), "2.0.0", "/nonexistent/novelty", "ignored")
	if err != nil {
		t.Fatal(err)
	}
	newer, err := host.Build(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	older := s.worlds[0].Updater
	for _, direction := range []struct{ name, writes, rescues string }{
		{"the newer one rescues the older one's", older, newer},
		{"the older one rescues the newer one's", newer, older},
	} {
		var mu sync.Mutex
		phases := map[state.Phase]int{}
		for _, scene := range rescued(t) {
			for _, w := range s.worlds {
				if err := w.upgradePackage(direction.writes); err != nil {
					t.Fatal(err)
				}
			}
			each(s, scene, func(stage *Stage) ([]double, error) {
				return listRescues(t, stage)
			}, func(stage *Stage, d double) error {
				hit, killed, err := stage.killed(t, d)
				if err != nil || !killed {
					return err
				}
				j, err := state.LoadJournal(filepath.Join(stage.Versions(), "journal.json"))
				if err != nil {
					return err
				}
				if j != nil {
					mu.Lock()
					phases[j.Phase]++
					mu.Unlock()
				}
				s.points.Add(1)
				if err := stage.upgradePackage(direction.rescues); err != nil {
					return err
				}
				problems, err := stage.aftermath(t.Context(), !d.boot, false)
				// The updater's own copy is of whoever ran last.
				problems = slices.DeleteFunc(problems, func(p string) bool { return strings.Contains(p, " updater/teleport-update") })
				s.violated(scene, direction.name+", "+hit, problems)
				if err == nil {
					err = stage.upgradePackage(direction.writes)
				}
				return err
			})
		}
		t.Logf("%s: %v", direction.name, phases)
		if s.some.Cut() != "" {
			continue
		}
		for _, p := range everyPhase(t) {
			if phases[p] == 0 {
				t.Errorf("%s: none was left in the phase %q: %v", direction.name, p, phases)
			}
		}
	}
}

// rescued are the scenes that have each phase among them.
func rescued(t *testing.T) []Scene {
	t.Helper()
	list := []Scene{Replacement()}
	for _, name := range []string{"enable over existing binaries", "downgrade"} {
		scene, err := SceneNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, scene)
	}
	return list
}

// everyPhase lists the phases of the machine's table: it has a golden journal of each.
func everyPhase(t *testing.T) (phases []state.Phase) {
	t.Helper()
	module, err := host.Module()
	if err != nil {
		t.Fatal(err)
	}
	journals := filepath.Join(module, "installer", "transaction", "testdata", "journal")
	files, err := os.ReadDir(journals)
	if err != nil || len(files) == 0 {
		t.Fatalf("no phases are known from %s: %v", journals, err)
	}
	for _, f := range files {
		phases = append(phases, state.Phase(strings.TrimSuffix(f.Name(), ".json")))
	}
	return phases
}

// listRescues takes kills all along a run, and for some of them kills all along the recovery, its
// end among them, which is short.
func listRescues(t *testing.T, stage *Stage) ([]double, error) {
	calls, err := stage.count(t.Context(), stage.Args(stage.World))
	if err != nil {
		return nil, err
	}
	var rescues []double
	for i, first := range thin(pointsOf(calls), tries(40, 14)) {
		rescues = append(rescues, double{first: first, boot: i%2 == 0})
		if i%tries(4, 5) != 1 {
			continue
		}
		d := double{first: first}
		if _, killed, err := stage.killed(t, d); err != nil {
			return nil, err
		} else if !killed || len(stage.Closed()) == 0 {
			continue // nothing is open
		}
		calls, err := stage.count(t.Context(), d.recovery())
		if err != nil {
			return nil, err
		}
		points := pointsOf(calls)
		for _, d.second = range append(thin(points, tries(6, 3)), points[max(0, len(points)-8)]) {
			rescues = append(rescues, d)
		}
	}
	return rescues, nil
}

// killed is killedTwice, or the first of the two.
func (s *Stage) killed(t *testing.T, d double) (string, bool, error) {
	if d.second.index > 0 {
		return killedTwice(t, s, d)
	}
	if err := s.Restore(); err != nil {
		return "", false, err
	}
	var hit trace.Call
	r, err := d.first.kill(t.Context(), s.Command(s.Args(s.World)...), &hit)
	return fmt.Sprintf("killed at %v", hit), r.Killed, err
}

// upgradePackage has another program in the updater's place, as a package's upgrade does.
func (w *World) upgradePackage(program string) error {
	temp := w.Program + ".new"
	if err := copyFile(program, temp, 0o755); err != nil {
		return err
	}
	return os.Rename(temp, w.Program)
}
