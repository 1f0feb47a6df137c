package transaction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
)

// restoreUnit puts the unit back, and makes systemd read it.
func (u *undoing) restoreUnit(ctx context.Context) error {
	if u.kept {
		return nil
	}
	err := u.way.setAsideForUnit()
	if err == nil {
		err = host.RestoreUnit(u.j.Unit)
	}
	u.restoreReport()
	return errors.Join(wrap(err, "put the agent's unit back: %w"), u.reloads.reloadSystemd(ctx))
}

// restoreReport makes the agent report to its cluster what it did before: nothing, if the
// configuration said so, or if the files for the report came with this transaction. A failure to
// report does not keep the old version waiting.
func (u *undoing) restoreReport() {
	c, err := u.config.found()
	switch {
	case err != nil:
	case c.Spec.NoClusterReport, u.j.ClusterReport.Fresh:
		_, err = u.report.ReportToCluster(false)
	case c.Spec.ActiveVersion != "":
		if _, err = u.report.ReportToCluster(true); err == nil {
			err = u.report.WriteClusterConfig(c, c.Spec.Pinned || c.Status.Held != nil)
		}
	}
	warn(u.log, err, "the agent may not report its updates to its cluster as it did before")
}

// revertLinks puts the links back. If the agent's own link cannot go back, the whole of the new
// version stays.
func (u *undoing) revertLinks(ctx context.Context) error {
	if u.kept {
		return nil
	}
	err := u.putLinksBack()
	if err != nil && !host.AgentLinkIsBack(u.j.Links) {
		return errors.Join(err, u.keepNew(ctx))
	}
	return err
}

func (u *undoing) putLinksBack() error {
	begun := host.Begun(u.j.Links, u.original)
	wasThere := func(c state.LinkChange) bool { return c.Before != state.Before{} }
	err := u.way.setAsideForLinks(begun, wasThere)
	// A file under a name that nothing had before is not in the way.
	foreign := host.Foreign(begun)
	begun = slices.DeleteFunc(begun, func(c state.LinkChange) bool { return !wasThere(c) && slices.Contains(foreign, c.Path) })
	return wrap(errors.Join(err, host.RevertLinks(begun, u.original)), "put the links back: %w")
}

// seeFilesBack puts links and unit back once more if others changed them since: the database is the
// old version's by now, so the old version has to run on it.
func (u *undoing) seeFilesBack(ctx context.Context) error {
	now, err := host.ReadUnit(u.j.Unit.Path)
	if err == nil && host.SameUnit(now, u.j.Unit) && host.AgentLinkIsBack(u.j.Links) {
		return nil
	}
	return errors.Join(u.putLinksBack(), u.restoreUnit(ctx))
}

// placeNew is for a pair of program and database that cannot go back: the new version gets its unit
// and its links again, and runs on its own database until the next run. A host never runs a version
// on another version's database.
func (u *undoing) placeNew(ctx context.Context) error {
	tree, ok, err := u.trees.Lookup(u.j.To.Release)
	if err == nil && !ok {
		err = errors.New("it is no longer on disk")
	}
	if err == nil {
		err = errors.Join(u.way.setAsideForLinks(u.j.Links, func(c state.LinkChange) bool { return c.Target != "" || c.PutBack != "" }),
			u.way.setAsideForUnit(),
			u.place.Place(tree, u.j.Links))
	}
	if err != nil {
		return fmt.Errorf("keep version %s: %w", u.j.To, err)
	}
	return u.reloads.reloadSystemd(ctx)
}

// keepNew is placeNew for an undoing, which moves nothing else from then on.
func (u *undoing) keepNew(ctx context.Context) error {
	u.kept = true
	return u.placeNew(ctx)
}

// cannotGoBack leaves the new version whole, and records why.
func (u *undoing) cannotGoBack(ctx context.Context, err error) error {
	return errors.Join(err, u.j.journalInTheWay(err.Error()), u.keepNew(ctx))
}

// fetchLimit is how long another fetch of the version before may take. The agent may be down
// meanwhile.
const fetchLimit = 10 * time.Minute

// startable reports whether the program of a tree is there and may be executed.
func startable(t state.Tree) bool {
	info, err := os.Stat(filepath.Join(t.ProgramsDir(), "bin", "teleport"))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// seeOldThere makes sure, before anything depends on it, that the version before can be started. If
// somebody took its program away, or the right to execute it, it is fetched again.
func (u *undoing) seeOldThere(ctx context.Context) error {
	if u.j.From == nil || startable(*u.j.From) {
		return nil
	}
	u.log.Warn("the version before cannot be started any more; it is fetched again", "version", u.j.From.String())
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, fmt.Errorf("it took longer than %v", fetchLimit))
	defer cancel()
	c, err := u.config.found()
	if err == nil {
		err = u.refetch(ctx, c, *u.j.From)
	}
	if err == nil && !startable(*u.j.From) {
		err = errors.New("what was fetched is no program")
	}
	return wrap(err, "version %s cannot go back: there is no program to execute in %s, and fetching it again failed: %w", u.j.From,
		u.j.From.ProgramsDir())
}
