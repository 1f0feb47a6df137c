package installer

import (
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
)

// UnitsAtBoot is the folder for the units of a host that has no version yet: the usual one, or
// systemd's own where the usual one is mounted only after systemd has read its units. A host that
// has a version keeps its folder; status names the command that moves its units. What cannot be
// seen is for the checks of enable to say.
func UnitsAtBoot(p state.Paths, mountAt func(path string) (string, error)) string {
	if p.UnitDir != layout.UnitDir {
		return p.UnitDir
	}
	if c, err := p.LoadConfig(); err != nil || c.Spec.ActiveVersion != "" {
		return p.UnitDir
	}
	if late, err := survey.LateMount(mountAt, p.UnitDir); err != nil || late == "" {
		return p.UnitDir
	}
	return layout.ConfigDir
}

// checkUnitsAtBoot refuses a folder for units that is mounted only after systemd has read its
// units: green today, and no agent after the next boot.
func (i *Installer) checkUnitsAtBoot() error {
	late, err := i.survey().Late()
	if err != nil || len(late) == 0 {
		return err
	}
	return failure.Unchanged("%v: after the next boot there would be no agent, no timer and no recovery", late[0]).
		To("name a folder that is there: `teleport-update --unit-dir %s enable`, with the other options as before; it is kept for later commands", layout.ConfigDir).Refused()
}
