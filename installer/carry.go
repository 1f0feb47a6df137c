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

// carry keeps what an administrator wrote into the agent's unit that the one of a version is
// about to take the place of, in a drop-in, before anything else is changed. It refuses what the two together
// would not let start, and a drop-in of somebody's that the new one would overrule: so the new one adds nothing to the unit that is
// there, and a change that is cut off, also before its journal is open, leaves the agent as it was.
// It reports whether there is one.
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

// fromPackage reports whether a unit is as a package of the agent's brought it: its text is the vendor's, of
// another version. One that was edited in place is an administrator's, as is one that cannot be compared.
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

// uncarry takes the drop-in away after a first enable that failed. While a transaction is open
// it stays: whoever waits for that may have been interrupted, and the version may yet prove.
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
