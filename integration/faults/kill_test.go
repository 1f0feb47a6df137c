//go:build hosts

package faults

import (
	"fmt"
	"testing"

	"teleport-update/integration/trace"
)

// A kill at any call that changes something, before it or after it, leaves a
// host that recovery makes whole, and that the next run brings where it was to
// go. Without FAULTS=all: a sixth of the points of an update, and a few of half of the other scenes.
func TestAKilledRunIsUndoneOrFinished(t *testing.T) {
	s := newSweep(t)
	defer s.report("kill points")
	for _, scene := range s.scenes() {
		each(s, scene, func(stage *Stage) ([]point, error) {
			if *pointFlag != "" {
				return parsePoints(*pointFlag)
			}
			calls, err := stage.count(t.Context(), stage.Args(stage.World))
			points := pointsOf(calls)
			switch {
			case *denseFlag && scene.Name == "update":
				return points, err
			case *denseFlag && !whole:
				return thin(points, 14), err
			case scene.Name == "update":
				return some(points, len(points)/6), err
			}
			return some(points, 4), err
		}, func(stage *Stage, p point) error {
			if err := stage.Restore(); err != nil {
				return err
			}
			var hit trace.Call
			r, err := p.kill(t.Context(), stage.Command(stage.Args(stage.World)...), &hit)
			if err != nil || !r.Killed {
				return err // the run was a call shorter
			}
			s.points.Add(1)
			problems, err := stage.aftermath(t.Context(), p.index%2 == 0, false)
			s.violated(scene, fmt.Sprintf("killed at %v", hit), problems, "-point", p.String())
			return err
		})
	}
}
