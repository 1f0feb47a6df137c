package transaction

import (
	"cmp"

	"teleport-update/health"
	"teleport-update/installer/state"
)

// watchOf describes the health watch of a version in dir: for as long as a person
// said, else long enough to see it fail again and again.
func watchOf(dir string, spec state.HealthSpec, s Sight) health.Watch {
	w := health.Watch{Dir: dir, Settings: spec.Settings}
	w.Window = cmp.Or(w.Window, state.Duration(health.DefaultWindow(s.Unit)))
	return w
}

// healthSpec is how the versions of this transaction are watched: what an open one needs
// is in its record, whatever becomes of the file meanwhile. A person may only shorten a
// window with it.
func (t *transaction) healthSpec() (state.HealthSpec, error) {
	if t.j.Commit.Spec != nil {
		return t.j.Commit.Spec.Health, nil
	}
	c, err := t.found()
	spec := c.Spec.Health
	if now, readErr := t.m.FreshConfig(); readErr == nil && now.Spec.Health.Window > 0 && now.Spec.Health.Window < spec.Window {
		spec.Window = now.Spec.Health.Window
	}
	return spec, err
}
