package installer

import (
	"cmp"
	"os"
	"path/filepath"

	"teleport-update/installer/decision"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
)

// UnitsAtBoot returns the folder of units for enable: the usual one, or systemd's own if the usual one is mounted only after systemd has
// read its units. The first enable decides: the units of a host with a version stay where they are. The checks of enable report a mount
// that cannot be seen.
func UnitsAtBoot(p state.Paths, mountAt func(path string) (string, error), boot survey.Boot) string {
	if c, err := p.LoadConfig(); p.UnitDir != layout.UnitDir || err != nil || c.Spec.ActiveVersion != "" {
		return p.UnitDir
	}
	if late, err := survey.LateMount(mountAt, boot, p.UnitDir); err != nil || late == "" {
		return p.UnitDir
	}
	return layout.ConfigDir
}

// checkUnitsAtBoot refuses a folder for units that is mounted only after systemd has read its
// units: green today, and no agent after the next boot.
func (i *Installer) checkUnitsAtBoot(c state.Config) error {
	dir := i.Machine.Host.Paths.UnitDir
	mount, err := survey.LateMount(i.Processes.MountAt, i.Boot, dir)
	if err != nil || mount == "" {
		return err
	}
	why := failure.Unchanged("%v: after the next boot there would be no agent, no timer and no recovery", survey.Late{Dir: dir, Mount: mount})
	if c.Spec.ActiveVersion != "" {
		return why.To("%s", decision.UnitsElsewhere).Refused()
	}
	return why.To("name a folder that is there: `teleport-update --unit-dir %s enable`, with the other options as before; it is kept for "+
		"later commands", layout.ConfigDir).Refused()
}

// checkUnitsOfPackages refuses a folder in which a package has the updater's own units: they would be overwritten, and the package's next
// version would overwrite the new ones.
func (i *Installer) checkUnitsOfPackages(recorded string) error {
	file := i.Machine.Host.OwnUnits().InPackageDir()
	if file == "" || sameFolder(recorded, i.Machine.Host.Paths.UnitDir) {
		return nil // under another name, the units are this host's since an earlier enable
	}
	return failure.Unchanged("%s is a unit of the package of teleport-update, and would be written over", file).
		To("leave out --unit-dir, or name %s: `teleport-update enable`, with the other options as before", layout.ConfigDir).Refused()
}

// checkUnitsStay refuses another folder of units than the first enable chose. If the agent's unit is not there, the record of the folder
// may be lost, and the folder of this command counts. The check comes before the lock, with which a run would repair the units in the other
// folder.
func (i *Installer) checkUnitsStay() error {
	c, err := i.survey().Config()
	was, is := cmp.Or(c.Spec.UnitDir, layout.UnitDir), i.Machine.Host.Paths.UnitDir
	if err != nil || c.Spec.ActiveVersion == "" || was == is || sameFolder(was, is) {
		return nil // Open reports an error of updates.yaml
	}
	if !host.Exists(filepath.Join(was, i.Machine.Host.Paths.AgentUnit())) {
		return nil
	}
	return failure.Unchanged("the units of this host are in %s, where the first `enable` put them, and stay there", was).
		To("leave out --unit-dir; for another folder, `teleport-update uninstall`, which leaves the agent as it runs, and then "+
			"`teleport-update --unit-dir %s enable` with its options", is).Refused()
}

// sameFolder reports whether two names lead to one folder.
func sameFolder(a, b string) bool {
	one, err1 := os.Stat(a)
	other, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}
