package transaction

import (
	"cmp"
	"context"

	"teleport-update/health"
	"teleport-update/installer/state"
)

// A step is one part of a transaction. stepsForward has the functions that do the steps, stepsBack
// those that undo them.
type step struct {
	name string
	// needs are the parts of the journal, by their names there, that undoing the step reads after a
	// crash, in another process. No row lists the parts that every undoing reads.
	needs []string
	// back says what undoes the step; empty if nothing has to be undone. That can be cut off anywhere
	// and be made again.
	back string
	// enters is the phase that begins when the step is done. leaves is the phase that begins when it
	// is undone, with all steps that came after it.
	enters, leaves state.Phase
	// live means that the undo concerns the agent, which has not been started yet when a recovery at
	// boot runs, so it is left to the first tick.
	live bool
}

// steps is the way to a new version, read from top to bottom. An undoing reads it from bottom to
// top, and ends with the agent.
//
// Why in this order, forward: the stop, if there is one, comes before the backup, so that no row is
// lost (RFD 0169 §Downgrades, invariant 1). The backup comes before the first link, since any
// restart of the agent from there on starts the new version (RFD 0169 has the links first: a reboot
// in between would start it on a database without a backup). The link "teleport" is the last of
// them. systemd reads the unit before the phase says that all of this is the new version's. The
// database that the new version had comes back only then: a run that is killed before has no
// database to put back.
//
// And backward: the new version is stopped before anything else. If systemd reads its files while a
// main process that it knows from the PID file is dead, it waits for that process in vain. Whether
// the database can go back is checked before anything is moved: it is one pair with the link and
// the unit. The unit goes before the links, and systemd reads it then. If the undoing is killed in
// between, or somebody starts the agent, the host runs the new version on its own database (or, if
// a package had the agent, the package's program by its own unit; the links first would leave a
// unit of ours that starts nothing). Only between the links and the restore does a start meet a
// database that is not its own, and that time is as short as it can be. The database goes back last
// of the files: once no link leads to the new version nobody can start it, and the restored
// database stays as it is. The agent comes last, in every way out.
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

// doing returns what the steps need of the transaction, and no more.
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

// undoing returns what the steps back need of the transaction, and no more; boot means that the agent
// has not been started yet.
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

// watchOf describes the health watch of a version in dir. It lasts as long as a person said,
// otherwise long enough to see the version fail again and again.
func watchOf(dir string, spec state.HealthSpec, s Sight) health.Watch {
	w := health.Watch{Dir: dir, Settings: spec.Settings}
	w.Window = cmp.Or(w.Window, state.Duration(health.DefaultWindow(s.Unit)))
	return w
}

// healthSpec returns how the versions of this transaction are watched. An open transaction has that
// in its record, whatever happens to the file meanwhile. With the file, a person may only shorten a
// window.
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
