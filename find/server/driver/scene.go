package driver

import (
	"cmp"
	"context"
	"slices"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
)

// Order carries out a person's order, or returns a *rollout.RefusedError.
func (e *Engine) Order(ctx context.Context, o rollout.Order, dryRun bool) (rollout.Result, error) {
	var last rollout.Result
	_, err := e.apply(ctx, cmp.Or(o.Who, "unknown"), o.Why, func(s seen) (rollout.Result, string, error) {
		result, err := o.Apply(s.config, s.version, s.rollout, s.counts, s.now)
		last = result
		if dryRun {
			result.Rollout, result.Plans = s.rollout, nil
		}
		return result, o.Words(), err
	})
	e.Wake()
	return last, err
}

// Scene returns the present state, for people.
func (e *Engine) Scene(ctx context.Context) (scene rollout.Scene, err error) {
	err = e.look(ctx, func(s seen) {
		scene = rollout.Scene{Config: s.config, Version: s.version, Rollout: s.rollout, Counts: s.counts.Detached(), Now: s.now}
	})
	scene.CompleteAt = e.opts.Inventory.CompleteAt()
	return scene, err
}

// LastScene returns the resources that were read last, with present counts.
func (e *Engine) LastScene(last answers.Resources) rollout.Scene {
	scene := rollout.Scene{Config: last.Config, Version: last.Version, Rollout: last.Rollout, Now: e.opts.Clock(),
		CompleteAt: e.opts.Inventory.CompleteAt()}
	if last.Rollout != nil {
		e.opts.Inventory.Counting(last.Rollout, nil, scene.Now, func(n rollout.Counts) { scene.Counts = n.Detached() })
	}
	return scene
}

// CountedScene returns the resources that were read last, with the last counts of the engine: it reads and counts
// nothing. If the counts do not fit the rollout, they are left out; the next look, within seconds, has others.
func (e *Engine) CountedScene(last answers.Resources) rollout.Scene {
	scene := rollout.Scene{Config: last.Config, Version: last.Version, Rollout: last.Rollout, Now: e.opts.Clock(),
		CompleteAt: e.opts.Inventory.CompleteAt()}
	if n := e.Status().Counts; last.Rollout != nil && n.Subject == last.Rollout.Subject() {
		scene.Counts = n
	} else if last.Rollout != nil {
		scene.Counts.Groups = make([]rollout.GroupCounts, len(last.Rollout.Status.Groups))
	}
	return scene
}

// Foresee returns the warnings about what a person has set, for a scene without counts. What waits for the next rollout is
// judged by the hosts that report now.
func (e *Engine) Foresee(s rollout.Scene) (list []string) {
	count := func(r *rollout.Rollout) (counts rollout.Counts) {
		e.opts.Inventory.Counting(r, nil, s.Now, func(n rollout.Counts) { counts = n.Detached() })
		return counts
	}
	begun := s.Version != nil && s.Rollout != nil && s.Rollout.Of(s.Version)
	if s.Version != nil {
		if !begun {
			s.Rollout = rollout.NewRollout(s.Config, s.Version, s.Now)
		}
		s.Counts = count(s.Rollout)
		list = rollout.Foresee(s)
	}
	if begun || s.Version == nil {
		for _, warning := range rollout.SlowPlans(s.Config, s.Now, count) {
			if !slices.Contains(list, warning) {
				list = append(list, warning)
			}
		}
	}
	return list
}
