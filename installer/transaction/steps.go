package transaction

import (
	"cmp"
	"context"

	"teleport-update/health"
	"teleport-update/installer/state"
)

// A step is one part of a transaction. How it is done is in stepsForward, how it is undone in
// stepsBack.
type step struct {
	name string
	// needs are the parts of the journal, by their names there, that undoing the step reads,
	// after a crash in another process. What each undoing reads is in no row.
	needs []string
	// back says what undoes it; empty if nothing has to be undone. It can be cut off anywhere
	// and be made again.
	back string
	// enters is the phase that begins when the step is done, leaves the one that
	// begins when it is undone, and all that came after it.
	enters, leaves state.Phase
	// live: the undo has to do with the agent, which has not been started yet when a
	// recovery at boot runs, so it is left to the first tick.
	live bool
}

// steps is the way to a new version, read from top to bottom; undone, it is read
// from bottom to top, and ends with the agent.
//
// Why in this order, forward: the stop, where there is one, comes before the
// backup, so that no row is lost (RFD 0169 §Downgrades, invariant 1); the backup
// before the first link, for from there on whoever restarts the agent starts the
// new version (RFD 0169 has the links first: a reboot in between would start it on
// a database without a backup); the link "teleport" is the last of them; systemd
// reads the unit before the phase says that all of this is the new version's; the
// database that the new version had comes back only then, for who is killed before
// has nothing to put back.
//
// And backward: the new version is stopped before anything else, because making
// systemd read its files while a main process that it knows from the PID file is
// dead has it wait for that in vain. Whether the database can go back is looked at
// before anything is moved: it is one pair with the link and the unit. The unit,
// with systemd told of it, goes before the links: killed in between, or started by
// somebody, the host runs the new version on its own database (or, where a package
// had the agent, the package's program by its own unit; the links first would leave
// a unit of ours that starts nothing). Only between the links and the restore does
// a start meet a database that is not its own, and that is as short as it can be.
// The database goes back last of the files: once no link leads to the new version
// nobody can start it, and what is restored stays so. The agent comes last, in
// every way out.
func steps() []step {
	return []step{
		{name: "stop", needs: []string{"agent", "watch", "commit", "config", "links", "unit", "database", "reached", "cluster_report"},
			live: true, back: "start the old version and watch it"},
		{name: "backup", needs: []string{"database", "agent", "watch", "reached", "links", "unit"}, leaves: restored,
			back: "restore the database"},
		{name: "links", needs: []string{"links", "unit"},
			back: "put the links back"},
		{name: "unit", needs: []string{"unit", "config", "cluster_report"},
			back: "put the unit back, and have systemd read it"},
		{name: "reload", enters: switched},
		{name: "database", needs: []string{"database", "reached", "links", "unit"},
			back: "look whether the database can go back"},
		{name: "watch", needs: []string{"agent", "watch", "reached", "database", "links", "unit", "config"}, enters: proven, live: true,
			back: "stop the new version"},
	}
}

// doing is what the steps need of the transaction, and no more.
func (t *transaction) doing(req checked) *doing {
	return &doing{
		j: t.j, req: req,
		agent: t.agent, health: t.agent,
		place: t.m.Host, way: t, report: t.m.Host,
		held: t,
		database: func(ctx context.Context) (changedDatabase, error) {
			db, err := t.database(ctx)
			if err != nil {
				return nil, err
			}
			return db, nil
		},
		journalRemovedData: t.journalRemovedData,
		unread:             t.m.Host.AgentUnit().Unread, proxyOf: t.m.proxyOf, now: t.m.Now, log: t.m.Host.Log, unitFile: t.m.Host.Paths.Unit(),
	}
}

// undoing is what the steps back need of the transaction, and no more; boot is before the agent has been
// started.
func (t *transaction) undoing(boot bool) *undoing {
	return &undoing{
		j: t.j, boot: boot,
		agent: t.agent, units: t.agent, reloads: t,
		place: t.m.Host, trees: t.m.Host.Store, way: t, report: t.m.Host, config: t,
		held: t,
		database: func(ctx context.Context) (restoredDatabase, error) {
			db, err := t.database(ctx)
			if err != nil {
				return nil, err
			}
			return db, nil
		},
		moved: func(ctx context.Context) (movedDatabase, error) {
			db, err := t.database(ctx)
			if err != nil {
				return nil, err
			}
			return db, nil
		},
		journalRemovedData: t.journalRemovedData,
		refetch:            t.m.Refetch, patience: t.m.UserPatience, now: t.m.Now, log: t.m.Host.Log,
		unit: t.m.Host.Paths.AgentUnit(), original: t.m.Host.Paths.Original(),
	}
}

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
