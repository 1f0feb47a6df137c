package installer

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/layout"
	"teleport-update/internal/regular"
	"teleport-update/ospackage"
	"teleport-update/systemd"
	"teleport-update/versions"
	"teleport-update/versions/archive"
)

// carry keeps an administrator's lines of the agent's unit in a drop-in, before anything else is changed: the unit of a version is about to
// replace that unit. It returns an error if the agent could not start with both, or if the drop-in would overrule somebody's drop-in. The
// drop-in adds nothing to the current unit: a change that is cut off, also before its journal is open, leaves the agent as it was. carry
// reports whether it wrote a drop-in.
func (i *Installer) carry(ctx context.Context, tree versions.Tree) (bool, error) {
	now := i.surveyToChange()
	sight, err := now.Agent(ctx)
	now.Close()
	if err != nil || sight.State == state.AgentUnknown || sight.Unit.FragmentPath == "" {
		return false, err
	}
	if fromPackage(ctx, i.Machine, sight.Unit.FragmentPath) {
		return false, nil
	}
	if err := host.CheckPIDFile(i.Machine.Host, sight.Unit, tree); err != nil {
		return false, err
	}
	before, err := regular.Read(sight.Unit.FragmentPath, archive.MaxUnit, 0)
	if err != nil {
		return false, failure.Unchanged("the agent's unit cannot be read, and nobody knows what an administrator wrote into it: %w", err)
	}
	after, err := i.Machine.Host.UnitOf(tree)
	if err != nil {
		return false, err
	}
	c := systemd.Carry(before, after.Content)
	if len(c.Rest) > 0 {
		i.Machine.Host.Log.Warn("the unit of the version says how the agent is started; what the unit before said otherwise is not kept: "+
			"`systemctl edit teleport` adds what is needed", "unit", sight.Unit.FragmentPath, "not_kept", strings.Join(c.Rest, "; "))
	}
	if c.DropIn == nil {
		return false, nil
	}
	if err := host.CheckOverrules(i.Machine.Host, sight.Unit, c); err != nil {
		return false, err
	}
	if err := i.Machine.Host.OwnUnits().WriteCarried(c, sight.Unit.FragmentPath); err != nil {
		return false, failure.Unchanged("what an administrator wrote into %s cannot be kept: %w", sight.Unit.FragmentPath, err)
	}
	i.Machine.Host.Log.Info("what an administrator wrote into the agent's unit is kept in a drop-in", "unit", sight.Unit.FragmentPath, "file",
		i.Machine.Host.OwnUnits().CarriedFile())
	return true, nil
}

// fromPackage reports whether the unit is as a package of the agent brought it: the vendor wrote its text, for another version. A unit that
// was edited in place, or that cannot be compared, is an administrator's.
func fromPackage(ctx context.Context, m *transaction.Machine, unit string) bool {
	if !slices.Contains(layout.PackageUnitDirs, filepath.Dir(unit)) {
		return false
	}
	for _, p := range m.AgentPackages(ctx) {
		digests, err := ospackage.Package(p).Digests(ctx)
		if err != nil {
			m.Host.Log.Info("it is not known whether the agent's unit is as a package brought it; what it says is kept", "unit", unit,
				"package", ospackage.Package(p).String(), "error", err)
		}
		if ospackage.BroughtUnit(digests, unit) {
			return true
		}
	}
	return false
}

// uncarry removes the drop-in after a first enable that failed. The drop-in stays while a transaction is open: perhaps only the command
// that waits for it was interrupted, and the version may yet prove.
func (i *Installer) uncarry(ctx context.Context) {
	c, err := i.survey().Config()
	if err != nil || c.Spec.ActiveVersion != "" || !host.Absent(i.Machine.Host.Paths.Journal()) {
		return
	}
	if err = i.Machine.Host.OwnUnits().EraseCarried(); err == nil {
		err = i.reloadUnits(context.WithoutCancel(ctx))
	}
	if err != nil {
		i.Machine.Host.Log.Warn("a drop-in of the agent's unit could not be removed; it adds nothing to the unit", "file",
			i.Machine.Host.OwnUnits().CarriedFile(), "error", err)
	}
}
