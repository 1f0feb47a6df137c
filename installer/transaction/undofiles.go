package transaction

import (
	"context"
	"errors"
	"slices"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// restoreUnit puts the unit back, and has systemd read it.
func (u *undoing) restoreUnit(ctx context.Context) error {
	if u.kept {
		return nil
	}
	err := u.t.setAsideForUnit()
	if err == nil {
		err = host.RestoreUnit(u.t.j.Unit)
	}
	u.restoreReport()
	return errors.Join(wrap(err, "put the agent's unit back: %w"), u.t.tellSystemd(ctx))
}

// restoreReport has the agent report to its cluster what it did before: nothing, if the
// configuration said so, or if what has it report came with this transaction. What the agent does
// not report is no reason to leave the old version waiting.
func (u *undoing) restoreReport() {
	c, err := u.t.found()
	switch {
	case err != nil:
	case c.Spec.NoClusterReport, u.t.j.ClusterReport.Fresh:
		_, err = u.t.m.Host.ReportToCluster(false)
	case c.Spec.ActiveVersion != "":
		if _, err = u.t.m.Host.ReportToCluster(true); err == nil {
			err = u.t.m.Host.WriteClusterConfig(c, c.Spec.Pinned || c.Status.Held != nil)
		}
	}
	u.t.m.warn(err, "the agent may not report its updates to its cluster as it did before")
}

// revertLinks puts the links back. Where the agent's own cannot go back, the whole
// of the new version stays.
func (u *undoing) revertLinks(ctx context.Context) error {
	if u.kept {
		return nil
	}
	err := u.putLinksBack()
	if err != nil && !host.AgentLinkIsBack(u.t.j.Links) {
		return errors.Join(err, u.keepNew(ctx))
	}
	return err
}

func (u *undoing) putLinksBack() error {
	begun := host.Begun(u.t.j.Links, u.t.m.Host.Paths.Original())
	wasThere := func(c state.LinkChange) bool { return c.Before != state.Before{} }
	err := u.t.setAsideForLinks(begun, wasThere)
	// What stands under a name that nothing had before is not in the way.
	foreign := host.Foreign(begun)
	begun = slices.DeleteFunc(begun, func(c state.LinkChange) bool { return !wasThere(c) && slices.Contains(foreign, c.Path) })
	return wrap(errors.Join(err, host.RevertLinks(begun, u.t.m.Host.Paths.Original())), "put the links back: %w")
}

// seeFilesBack puts links and unit back once more, where others changed them since: the
// database is the old version's by now, and what runs on it must be.
func (u *undoing) seeFilesBack(ctx context.Context) error {
	now, err := host.ReadUnit(u.t.j.Unit.Path)
	if err == nil && host.SameUnit(now, u.t.j.Unit) && host.AgentLinkIsBack(u.t.j.Links) {
		return nil
	}
	return errors.Join(u.putLinksBack(), u.restoreUnit(ctx))
}
