package installer

import (
	"cmp"
	"context"
	"os"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
)

// UnitsAtBoot returns the folder of units for enable: the usual one, or systemd's own if the usual one is mounted only after systemd has
// read its units. If a host has its units in the usual one, enable moves them, see unitsToMove. The checks of enable report a mount that
// cannot be seen.
func UnitsAtBoot(p state.Paths, mountAt func(path string) (string, error), boot survey.Boot) string {
	if p.UnitDir != layout.UnitDir {
		return p.UnitDir
	}
	if late, err := survey.LateMount(mountAt, boot, p.UnitDir); err != nil || late == "" {
		return p.UnitDir
	}
	return layout.ConfigDir
}

// checkUnitsAtBoot refuses a folder for units that is mounted only after systemd has read its
// units: green today, and no agent after the next boot.
func (i *Installer) checkUnitsAtBoot(dir string) error {
	mount, err := survey.LateMount(i.Processes.MountAt, i.Boot, dir)
	if err != nil || mount == "" {
		return err
	}
	return failure.Unchanged("%v: after the next boot there would be no agent, no timer and no recovery", survey.Late{Dir: dir, Mount: mount}).
		To("name a folder that is there: `teleport-update --unit-dir %s enable`, with the other options as before; it is kept for "+
			"later commands", layout.ConfigDir).Refused()
}

// checkUnitsOfPackages refuses a folder in which a package has the updater's own units: they would be overwritten, and the package's next
// version would overwrite the new ones.
func (i *Installer) checkUnitsOfPackages(recorded, dir string) error {
	file := i.Machine.Host.In(dir).OwnUnits().InPackageDir()
	if file == "" {
		return nil
	}
	ours, err1 := os.Stat(recorded)
	named, err2 := os.Stat(dir)
	if err1 == nil && err2 == nil && os.SameFile(ours, named) {
		return nil // under another name, the units are this host's since an earlier enable
	}
	return failure.Unchanged("%s is a unit of the package of teleport-update, and would be written over", file).
		To("leave out --unit-dir, or name %s: `teleport-update enable`, with the other options as before", layout.ConfigDir).Refused()
}

// unitsToMove returns the folder that this enable moves the units of a version to, empty if they stay. Until then all checks look at the
// folder in which the units are.
func (i *Installer) unitsToMove() (to string) {
	paths := &i.Machine.Host.Paths
	c, err := i.survey().Config()
	from := cmp.Or(c.Spec.UnitDir, layout.UnitDir)
	if err != nil || c.Spec.ActiveVersion == "" || from == paths.UnitDir || !i.Machine.Host.In(from).HasUnits() {
		return ""
	}
	a, err1 := os.Stat(from)
	b, err2 := os.Stat(paths.UnitDir)
	if err1 == nil && err2 == nil && os.SameFile(a, b) {
		return "" // two names of one folder
	}
	to = paths.UnitDir
	i.lookIn(from)
	return to
}

// lookIn has this command, and the commands that it starts, see the units in a folder.
func (i *Installer) lookIn(unitDir string) {
	i.Machine.Host.Paths.UnitDir = unitDir
	for n, word := range i.Machine.Command {
		if word == "--unit-dir" && n+1 < len(i.Machine.Command) {
			i.Machine.Command[n+1] = unitDir
		}
	}
}

// moveUnits moves the units of an active version. Links and unit of another program stay where they
// are, and a repair says why.
//
// updates.yaml names the new folder and the old one first. From then on the next command with the lock completes the move.
func (i *Installer) moveUnits(ctx context.Context, c *state.Config, to string) error {
	if tree, ok, err := i.Machine.Active(*c); err != nil {
		return err
	} else if ok {
		if err := i.Machine.CheckPair(ctx, *c, tree, i.Machine); err != nil {
			return err
		}
	}
	paths := i.Machine.Host.Paths
	c.Status.UnitsLeft = paths.UnitDir
	c.Spec.UnitDir = i.Machine.Host.In(to).Paths.Given(c.Spec).UnitDir
	if err := c.Save(paths.Config()); err != nil {
		return failure.Unchanged("note the folder of units: %w", err)
	}
	i.lookIn(to)
	if err := i.Machine.FinishMove(ctx, c); err != nil {
		return failure.In("units are in two folders, and the agent goes on", err)
	}
	return nil
}
