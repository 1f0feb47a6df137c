package driver

import (
	"cmp"
	"context"

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

// Foresee returns the warnings of rollout.Foresee for a scene without counts.
func (e *Engine) Foresee(s rollout.Scene) []string {
	if s.Version == nil {
		return nil
	}
	if s.Rollout == nil || !s.Rollout.Of(s.Version) {
		s.Rollout = rollout.NewRollout(s.Config, s.Version, s.Now)
	}
	e.opts.Inventory.Counting(s.Rollout, nil, s.Now, func(n rollout.Counts) { s.Counts = n.Detached() })
	return rollout.Foresee(s)
}
