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

// setAside moves out of the way what somebody put in places that the transaction has to
// have: under another name beside it, which status tells. Each is tried whatever became
// of the others.
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

// nameAside is the other name of what stands at a path. A run that could not move it has
// noted one already.
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

// setAsideForLinks makes way for links that are to lead to what they led to before, or to
// what they are to lead to, as far as goes says that there is one.
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

// keepUnit keeps a copy of a unit that somebody wrote over the one of the version before. What
// stood there before the first version is kept with the originals.
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

// runsMasked reports whether the new version runs, and its unit is masked: once stopped,
// nobody could start an agent again.
func (t *transaction) runsMasked(s Sight) bool {
	return s.LoadState == "masked" && s.Running() && s.runsFrom(t.j.To.ProgramsDir())
}

func maskedError(unit string) error {
	return fmt.Errorf("%s is masked, so that an agent that is stopped stays down, and nothing was stopped: `%s` first", unit,
		systemd.Unmask(unit))
}
