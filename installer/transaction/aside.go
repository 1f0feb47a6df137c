package transaction

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/systemd"
)

// setAside moves files out of the way that somebody put in the transaction's places: each gets
// another name beside its place, and status shows that name. It tries every path, even if others
// fail.
func (t *transaction) setAside(paths []string) error {
	var errs []error
	for _, path := range paths {
		to, err := t.nameAside(path)
		if err == nil {
			err = host.SetAside(path, to)
		}
		if err == nil {
			t.m.Host.Log.Warn("a file was put in the way of the transaction; it is kept aside", "path", path, "aside", to)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// nameAside returns the other name for the file at a path. A run that could not move the file has
// noted a name already.
func (t *transaction) nameAside(path string) (string, error) {
	for _, to := range t.j.Aside {
		if strings.HasPrefix(to, path+aside) && !host.Exists(to) {
			return to, nil
		}
	}
	to := path + aside + t.m.Now().UTC().Format("20060102T150405Z")
	return to, t.j.journalAside(to)
}

const aside = ".aside-"

// setAsideForLinks sets aside what somebody put in the places of links, for the links that goes
// accepts.
func (t *transaction) setAsideForLinks(links []state.LinkChange, goes func(state.LinkChange) bool) error {
	stays := func(c state.LinkChange) bool { return !goes(c) }
	return t.setAside(host.Foreign(slices.DeleteFunc(slices.Clone(links), stays)))
}

// setAsideForUnit makes way for the agent's unit.
func (t *transaction) setAsideForUnit() error {
	if !t.m.Host.ForeignUnit(t.j.Unit) {
		return nil
	}
	return t.setAside([]string{t.m.Host.Paths.Unit()})
}

// keepUnit keeps a copy of a unit that somebody wrote over the previous version's unit. The unit
// from before the first version is kept with the originals.
func (t *transaction) keepUnit() error {
	if t.j.From == nil {
		return nil
	}
	kept, err := t.m.Host.KeepForeignUnit()
	if err == nil && kept != "" {
		t.m.Host.Log.Warn("somebody wrote the agent's unit; it is kept aside", "aside", kept)
	}
	return wrap(err, "keep the agent's unit, which somebody wrote: %w")
}

// runsMasked reports whether the new version runs and its unit is masked: after a stop nobody could
// start an agent again.
func (t *transaction) runsMasked(s Sight) bool {
	return s.LoadState == "masked" && s.Running() && s.runsFrom(t.j.To.ProgramsDir())
}

func maskedError(unit string) error {
	return fmt.Errorf("%s is masked, so that an agent that is stopped stays down, and nothing was stopped: `%s` first", unit,
		systemd.Unmask(unit))
}
