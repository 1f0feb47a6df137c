//go:build hosts

package faults

import (
	"fmt"
	"testing"

	"teleport-update/integration/trace"
)

// double is a kill in a run, and another in the recovery from it.
type double struct {
	first, second point
	boot          bool // the recovery is the one at boot
}

func (d double) recovery() []string {
	if d.boot {
		return []string{"recover", "--boot"}
	}
	return []string{"recover"}
}

// A second kill, at any call of the recovery from a first, changes nothing about
// the outcome.
func TestAKilledRecoveryIsDoneAgain(t *testing.T) {
	s := newSweep(t)
	defer s.report("double kills")
	for _, scene := range s.scenes() {
		each(s, scene, func(stage *Stage) ([]double, error) {
			return listDoubles(t, stage)
		}, func(stage *Stage, d double) error {
			hit, killed, err := killedTwice(t, stage, d)
			if err != nil || !killed {
				return err
			}
			s.points.Add(1)
			problems, err := stage.aftermath(t.Context(), !d.boot, false)
			s.violated(scene, hit, problems, "-point", d.first.String(), "-second", d.second.String(), fmt.Sprintf("-boot=%v", d.boot))
			return err
		})
	}
}

// listDoubles takes the first kills that leave a journal, and for each of them
// every call of the recovery.
func listDoubles(t *testing.T, stage *Stage) ([]double, error) {
	if *secondFlag != "" {
		first, err := parsePoint(*pointFlag)
		if err != nil {
			return nil, err
		}
		second, err := parsePoint(*secondFlag)
		return []double{{first, second, *bootFlag}}, err
	}
	calls, err := stage.count(t.Context(), stage.Args(stage.World))
	if err != nil {
		return nil, err
	}
	firsts := pointsOf(calls)
	var doubles []double
	for i, step := 0, max(1, len(firsts)/tries(20, 3)); i < len(firsts); i += step {
		for _, boot := range []bool{false, true} {
			d := double{first: firsts[i], boot: boot}
			if err := stage.Restore(); err != nil {
				return nil, err
			}
			r, err := d.first.kill(t.Context(), stage.Command(stage.Args(stage.World)...), new(trace.Call))
			if err != nil || !r.Killed || len(stage.Closed()) == 0 {
				if err != nil {
					return nil, err
				}
				continue // nothing is open
			}
			calls, err := stage.count(t.Context(), d.recovery())
			if err != nil {
				return nil, err
			}
			for _, d.second = range thin(pointsOf(calls), tries(5, 3)) {
				doubles = append(doubles, d)
			}
		}
	}
	return doubles, nil
}

func killedTwice(t *testing.T, stage *Stage, d double) (hit string, killed bool, err error) {
	if err := stage.Restore(); err != nil {
		return "", false, err
	}
	var first, second trace.Call
	r, err := d.first.kill(t.Context(), stage.Command(stage.Args(stage.World)...), &first)
	if err != nil || !r.Killed {
		return "", false, err
	}
	r, err = d.second.kill(t.Context(), stage.Command(d.recovery()...), &second)
	hit = fmt.Sprintf("killed at %v, and %v at %v", first, d.recovery(), second)
	return hit, r.Killed, err
}

// tries is how many of something there are, all in all or in an ordinary run.
func tries(all, ordinary int) int {
	if whole {
		return all
	}
	return ordinary
}
