package transaction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// stepsBack returns the functions that undo the steps, by the names of the steps.
func stepsBack() map[string]func(*undoing, context.Context) error {
	return map[string]func(*undoing, context.Context) error{
		"stop": (*undoing).bringBack, "backup": (*undoing).restoreDatabase, "links": (*undoing).revertLinks, "unit": (*undoing).restoreUnit,
		"database": (*undoing).checkDatabase, "watch": (*undoing).stopNew,
	}
}

// undoSteps is the one door back, on a host that is up and at boot. It tries each step, even if
// others fail, and the agent comes last.
func (u *undoing) undoSteps(ctx context.Context) error {
	if u.j.Phase != restored {
		u.err = u.enterRollingBack()
	}
	for _, s := range slices.Backward(steps()) {
		if !u.due(s) {
			continue
		}
		err := u.undo(ctx, s)
		if u.boot && errors.Is(err, errTooSoon) {
			u.log.Warn("the next run checks whether the database is the old version's", "error", err)
			u.later, err = true, nil
		}
		u.err = errors.Join(u.err, err)
		if s.leaves != "" && u.err == nil && !u.later {
			u.err = u.j.enter(s.leaves)
		}
	}
	return u.err
}

func (u *undoing) undo(ctx context.Context, s step) error { return stepsBack()[s.name](u, ctx) }

// due reports whether a step is to be undone: every step as long as nothing was restored, which the
// journal says; at the end, and in every way out, the agent.
func (u *undoing) due(s step) bool {
	if s.back == "" || u.boot && s.live {
		return false
	}
	return u.j.Phase == rollingBack || s.name == steps()[0].name
}

// enterRollingBack goes on without the write if the disk has no room for it, or is broken, as long
// as the journal there says begun. That means the same, and links and unit may still have room to
// go back.
func (u *undoing) enterRollingBack() error {
	err := u.j.enter(rollingBack)
	if err == nil {
		return nil
	}
	if there, readErr := load(u.j.path); readErr != nil || there == nil || there.Phase != begun {
		return err
	}
	u.log.Warn("putting links and unit back all the same", "error", err)
	u.j.assume(rollingBack)
	return nil
}

// undoing is a transaction on its way back. It has the record, and interfaces to the host, to the
// agent and to its database, each as wide as the steps back need it; nothing of the way forward.
type undoing struct {
	j    *openJournal
	boot bool  // files only: the agent has not been started yet
	err  error // all that failed
	// kept means that the database could not go back, so the new version stays whole.
	kept bool
	// later means that the next run checks whether all is back.
	later bool
	// untouched means that the previous process served on when this began, and was left alone.
	untouched bool

	agent   agentBack
	units   otherUnits
	reloads reloads
	place   placeBack
	trees   treesBack
	way     wayBack
	report  clusterReport
	config  foundConfig
	held    databaseBack
	// database opens the agent's database for a restore, moved for a move aside or back.
	database func(context.Context) (restoredDatabase, error)
	moved    func(context.Context) (movedDatabase, error)
	// journalRemovedData records that a command of the agent's unit removed the data.
	journalRemovedData func(context.Context) error
	// refetch puts the version before on disk again.
	refetch  func(context.Context, state.Config, state.Tree) error
	patience time.Duration // with users of the database while the agent runs
	now      func() time.Time
	log      *slog.Logger
	unit     string // of the agent
	original string // the folder of what was here before the updater
}

// agentBack is the agent as an undoing uses it.
type agentBack interface {
	Look(ctx context.Context) (Sight, error)
	Stop(ctx context.Context, how manner) error
	Start(ctx context.Context) error
	Prove(ctx context.Context, by health.Means, w health.Watch) (health.Outcome, error)
}

// otherUnits are the units that may have started the agent.
type otherUnits interface {
	ActiveOf(ctx context.Context, units []string) ([]string, error)
}

// reloads make systemd read its files, now or once it can be reached.
type reloads interface {
	reloadSystemd(ctx context.Context) error
	settleReload(ctx context.Context) error
}

// placeBack is the host as an undoing uses it. Links and unit go back by the record alone, with
// functions of host; these are for a version that stays.
type placeBack interface {
	Place(tree versions.Tree, links []state.LinkChange) error
	CheckCanStop(u systemd.Unit) error
}

// treesBack finds the version that stays.
type treesBack interface {
	Lookup(r versions.Release) (versions.Tree, bool, error)
}

// wayBack makes way for links and unit.
type wayBack interface {
	setAsideForLinks(links []state.LinkChange, goes func(state.LinkChange) bool) error
	setAsideForUnit() error
}

// clusterReport says whether the agent reports its updates to its cluster, and what.
type clusterReport interface {
	ReportToCluster(on bool) (changed bool, err error)
	WriteClusterConfig(c state.Config, pinned bool) error
}

// foundConfig is the configuration that the transaction began with.
type foundConfig interface {
	found() (state.Config, error)
	healthSpec() (state.HealthSpec, error)
}

// databaseBack is the agent's database with the backup of the open transaction.
type databaseBack interface {
	withBackup(do func(dir string) error) error
	waitUnused(ctx context.Context, patience time.Duration) error
	canStartBefore(ctx context.Context) error
	dropReserve(ctx context.Context) error
}

// restoredDatabase is the agent's database as an undoing restores it.
type restoredDatabase interface {
	SameSchema(ctx context.Context, dir string) (same bool, err error)
	CanRestore(dir string, except []int) error
	CheckWhole(ctx context.Context, dir string) error
	Restore(ctx context.Context, dir string) error
}

// movedDatabase is the agent's database as a file that is moved.
type movedDatabase interface {
	Path() string
	CheckUnused(except []int) error
	MoveAside(why string, now time.Time, note func(to string) error) (to string, err error)
	PutBack(name string) error
}

// stopAgent stops the agent, so that files can be put back; at boot no agent was started yet. An
// undoing that was begun before may have brought the old version back already: then it goes on.
func (u *undoing) stopAgent(ctx context.Context) error {
	if u.boot {
		return nil
	}
	sight, err := u.agent.Look(ctx)
	if back := u.j.Database.Restored || !u.j.Database.Taken && host.AgentLinkIsBack(u.j.Links); err == nil && back {
		if !sight.runsFrom(u.j.To.ProgramsDir()) {
			return nil
		}
		if u.j.Database.Restored {
			err = u.j.setRestored(false) // somebody has started it since
		}
	}
	if err == nil {
		err = u.journalIfStarted(sight)
	}
	if err == nil {
		err = u.agent.Stop(ctx, atOnce)
	}
	if err != nil {
		u.kept = true // the database cannot go back under it
		return fmt.Errorf("stop the agent: %w", err)
	}
	return nil
}

// needNotGoBack reports whether the old version can go on with the present database.
func (u *undoing) needNotGoBack(ctx context.Context) bool {
	same, err := u.sameSchema(ctx)
	return err == nil && same && !u.exchanged()
}

func (u *undoing) sameSchema(ctx context.Context) (same bool, err error) {
	db, err := u.database(ctx)
	if err != nil {
		return false, err
	}
	err = u.held.withBackup(func(dir string) (err error) {
		same, err = db.SameSchema(ctx, dir)
		return err
	})
	return same, err
}

// exchanged reports whether the database may be the failed version's own, and not the old version's
// with changes: then it has to go back even if the old version could read it.
func (u *undoing) exchanged() bool {
	return u.j.Database.Plan == state.RestoreDatabase && u.j.reached("reload")
}

// journalIfStarted notes that an agent was started that had been stopped, when the transaction
// began or by a person in the middle of the watch: by then it is wanted, and no stop of ours may be
// the last word.
func (u *undoing) journalIfStarted(s Sight) error {
	if u.j.Agent.State != state.AgentStopped || !s.started() {
		return nil
	}
	u.log.Info("the agent was started meanwhile: it will run again once the old version is back")
	return u.j.journalStarted()
}
