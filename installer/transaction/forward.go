package transaction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"teleport-update/backup"
	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/internal/version"
	"teleport-update/systemd"
	"teleport-update/versions"
)

// stepsForward returns the functions that do the steps, by the names of the steps.
func stepsForward() map[string]func(*doing, context.Context) error {
	return map[string]func(*doing, context.Context) error{
		"stop": (*doing).stop, "backup": (*doing).backUp, "links": (*doing).relink, "unit": (*doing).placeUnit,
		"reload": (*doing).reload, "database": (*doing).exchangeDatabase, "watch": (*doing).proveNew,
	}
}

// stop stops the agent if the plan for the database says so.
func (s *doing) stop(ctx context.Context) error {
	if !s.j.Database.Stop || !s.j.Agent.State.Wanted() {
		return nil
	}
	if err := s.readUnit(ctx); err != nil {
		return err
	}
	if err := s.held.canStart(ctx); err != nil {
		return err
	}
	return wrap(s.agent.Stop(ctx, inOrder), "stop the agent: %w")
}

// readUnit makes systemd read a unit that changed since the transaction was planned: the checks before the stop
// have to be about the unit that starts the agent.
func (s *doing) readUnit(ctx context.Context) error {
	sight, err := s.agent.Look(ctx)
	if err != nil || !s.unread(sight.Unit) {
		return err
	}
	if err := s.agent.DaemonReload(ctx); err != nil {
		return failure.Refuse("have systemd read the agent's unit, which changed: %w", err)
	}
	return nil
}

func (s *doing) backUp(ctx context.Context) error {
	d := s.j.Database
	if d.Skipped || d.Damaged || d.Plan == state.KeepDatabase {
		// An old backup is not what the version is left with.
		if err := backup.Outdate(d.Dir); err != nil {
			return err
		}
	}
	switch {
	case d.Skipped:
		s.log.Warn("the agent's database is not backed up, as asked: a rollback cannot bring it back", "database", d.Path)
		return nil
	case d.Damaged && d.Plan == state.RestoreDatabase:
		db, err := s.database(ctx)
		if err != nil {
			return err
		}
		to, err := db.SetAside(ctx, s.now())
		if err != nil {
			return err
		}
		s.log.Warn("the agent's database is damaged and cannot be backed up; it is kept aside as it is", "database", d.Path, "aside", to)
		return s.j.journalDatabaseAside(filepath.Base(to))
	case d.Damaged:
		s.log.Warn("the agent's database is damaged and cannot be backed up; the new version gets it as it is, as asked",
			"database", d.Path)
		return nil
	case d.Plan == state.KeepDatabase:
		return nil
	}
	from := s.req.config.Active()
	db, err := s.database(ctx)
	if err != nil {
		return err
	}
	stopped := s.j.Database.Stop || s.j.Agent.State == state.AgentStopped
	if stopped {
		if err := s.held.waitUnused(ctx, afterStop); err != nil {
			return cannotBegin(err, s.req.Request, "the transaction is undone")
		}
	}
	if s.j.Database.Foreign {
		from = version.Release{}
	}
	s.log.Info("backing up the agent's database", "to", s.j.Database.Dir)
	progress := watchBackup(s.log)
	sum, err := db.Take(ctx, backup.TakeRequest{
		Dir:      s.j.Database.Dir,
		Meta:     backup.Meta{Proxy: s.proxy(), Version: from.Version, Edition: from.Edition, Created: s.now()},
		Stopped:  stopped,
		Progress: progress.Done,
	})
	progress.End()
	if failure.Is[*backup.CorruptError](err) {
		// No refusal to be repeated at each tick: finding this out takes a
		// download and a whole backup, so the version backs off.
		return errors.New(cannotBackUp(err, s.j.Database.Path, s.req.Request).Error())
	}
	if err != nil {
		return cannotBegin(fmt.Errorf("back up the agent's database: %w", err), s.req.Request, "the transaction is undone")
	}
	second := s.held.giveSecondName()
	db.Knows(sum, s.j.Database.Dir, second)
	return s.j.journalBackup(sum, second)
}

// proxy returns the cluster that today's database belongs to; a new cluster in the request counts
// only once it is committed.
func (s *doing) proxy() string {
	return cmp.Or(s.proxyOf(s.req.config.Spec), s.req.spec().Proxy)
}

// relink makes the links the new version's. The updater's own waits for the commit.
func (s *doing) relink(context.Context) error {
	return wrap(s.place.Link(s.j.Links), "link version %s: %w", s.req.To)
}

func (s *doing) placeUnit(context.Context) error {
	now, err := host.ReadUnit(s.unitFile)
	if err == nil && !host.SameUnit(now, s.j.Unit) {
		err = failure.Refuse("%s changed since the transaction was planned", s.unitFile)
	}
	if err != nil {
		return err
	}
	if err := s.way.keepUnit(); err != nil {
		return err
	}
	if err := s.place.PlaceUnit(s.req.tree); err != nil {
		return err
	}
	s.placeReport()
	return nil
}

// placeReport turns the agent's report to its cluster on or off, from its next start on. The agent
// reads the files when it connects, so they are there before that start, which may be one of ours.
// A failure does not count against the version.
func (s *doing) placeReport() {
	c := s.req.config
	c.Spec = s.req.spec()
	c.Spec.ActiveVersion, c.Status.ActiveEdition = s.req.To.Version, s.req.To.Edition
	_, err := s.report.ReportToCluster(!c.Spec.NoClusterReport)
	if err == nil {
		err = s.report.WriteClusterConfig(c, c.Spec.Pinned || s.j.Commit.Held != nil)
	}
	warn(s.log, err, "the agent may not report its updates to its cluster")
}

// reload makes systemd read the unit, and makes sure that it will start the new
// version, on the agent's own database.
func (s *doing) reload(ctx context.Context) error {
	if err := s.agent.DaemonReload(ctx); err != nil {
		return &reloadError{fmt.Errorf("make systemd read the new unit: %w", err)}
	}
	sight, err := s.agent.Look(ctx)
	if err != nil {
		return err
	}
	if err := s.place.CheckStarts(sight.Unit, s.req.tree); err != nil {
		return err
	}
	if s.j.Agent.State == state.AgentRunning || s.j.Agent.State.Wanted() && s.j.Database.Stop {
		return s.checkNextStart(ctx)
	}
	return nil
}

// checkNextStart returns why the agent would not start again by its new unit, or would start on another database than its
// own. A reloaded agent keeps the arguments that it was started with: its health says nothing of its next start, which may
// be at the next boot. The previous unit passed the same checks, so another database counts against the version, and so does
// an obstacle under a changed unit; a configuration that cannot be read, or a full disk, is the host's.
func (s *doing) checkNextStart(ctx context.Context) error {
	database, err := s.place.Database()
	if err == nil && database != s.j.Database.Path {
		return fmt.Errorf("the unit that version %s brings leads the agent to the database %s, and its own is %s", s.req.To.Short(), database,
			s.j.Database.Path)
	}
	why := s.held.canStart(ctx)
	if err != nil || !failure.Is[*failure.RefusedError](why) || failure.Is[*space.Error](why) {
		return why
	}
	now, err := host.ReadUnit(s.unitFile)
	if err != nil || string(now.Content) == string(s.j.Unit.Content) {
		return why
	}
	return fmt.Errorf("the unit that version %s brings would not start the agent again: %s", s.req.To.Short(), why)
}

// exchangeDatabase puts the database that the new version had in its place.
func (s *doing) exchangeDatabase(ctx context.Context) error {
	if s.j.Database.Plan != state.RestoreDatabase {
		return nil
	}
	err := wrap(s.restoreStopped(ctx), "restore the database that version %s had: %w", s.req.To)
	if failure.Is[*backup.InUseError](err) {
		return errors.Join(cannotBegin(err, s.req.Request, "the transaction is undone"), s.j.setNotExchanged())
	}
	return err
}

// restoreStopped restores while the agent is down. Links and unit are the new version's: if somebody has started the agent
// since it was stopped, the new version ran on the old version's database, which may be migrated since. The backup of that
// database is unchanged.
func (s *doing) restoreStopped(ctx context.Context) error {
	db, err := s.database(ctx)
	if err != nil {
		return err
	}
	progress := watchRestore(s.log, s.req.tree.BackupDir())
	defer progress.End()
	for tries := 1; ; tries++ {
		err := db.Restore(ctx, s.req.tree.BackupDir())
		if !failure.Is[*backup.InUseError](err) || tries == 3 {
			return err
		}
		sight, lookErr := s.agent.Look(ctx)
		if lookErr != nil {
			return lookErr
		}
		if !sight.started() {
			return err // it is not the agent that has it open
		}
		s.log.Warn("somebody started the agent before the database was exchanged: it is stopped again", "error", err)
		if s.j.Agent.State == state.AgentStopped {
			if err := s.j.journalStarted(); err != nil {
				return err
			}
		}
		if err := s.agent.Stop(ctx, atOnce); err != nil {
			return fmt.Errorf("stop the agent: %w", err)
		}
	}
}

// doing is a transaction whose steps are done. It has the record, the request, and interfaces to the
// host, the agent and its database, each as wide as the steps need it.
type doing struct {
	j   *openJournal
	req checked

	agent  agentForward
	health prover
	place  placeForward
	way    unitKeeper
	report clusterReport
	held   databaseForward
	// unread reports whether files of a unit changed since systemd read them.
	unread func(systemd.Unit) bool
	// database opens the agent's database.
	database func(context.Context) (changedDatabase, error)
	// journalRemovedData records that a command of the agent's unit removed the data.
	journalRemovedData func(context.Context) error
	proxyOf            func(state.Spec) string // the cluster of a database
	now                func() time.Time
	log                *slog.Logger
	unitFile           string // of the agent
}

// agentForward is the agent as the steps use it.
type agentForward interface {
	Look(ctx context.Context) (Sight, error)
	Stopping(ctx context.Context) (bool, error)
	Stop(ctx context.Context, how manner) error
	DaemonReload(ctx context.Context) error
}

// placeForward puts a version in its place on the host.
type placeForward interface {
	Link(links []state.LinkChange) error
	PlaceUnit(tree versions.Tree) error
	CheckStarts(u systemd.Unit, tree versions.Tree) error
	Database() (path string, err error)
}

// unitKeeper keeps a unit that the next one takes the place of.
type unitKeeper interface{ keepUnit() error }

// databaseForward is the agent's database with the backup of the open transaction.
type databaseForward interface {
	waitUnused(ctx context.Context, patience time.Duration) error
	giveSecondName() (second string)
	canStart(ctx context.Context) error
}

// changedDatabase is the agent's database as the steps back it up and exchange it.
type changedDatabase interface {
	SetAside(ctx context.Context, now time.Time) (to string, err error)
	Take(ctx context.Context, r backup.TakeRequest) (backup.Sum, error)
	Knows(sum backup.Sum, dirs ...string)
	Restore(ctx context.Context, dir string) error
}

// proveNew makes the agent run the new version and watches its health. An agent that
// nobody wants to run is left alone: the version counts as active, unproven.
func (s *doing) proveNew(ctx context.Context) error {
	if !s.j.Agent.State.Wanted() {
		return nil
	}
	sight, err := s.agent.Look(ctx)
	if err != nil {
		return err
	}
	w := watchOf(s.req.tree.ProgramsDir(), s.req.spec().Health, sight)
	if least := health.MinWindow(sight.Unit); w.Window.Std() < least {
		s.log.Warn("the health window is shorter than it takes to see a slow crash loop", "window", w.Window.Std(), "advised", least)
	}
	// A stop that has not ended is somebody else's: the transaction has waited for its own.
	if (sight.Idle() || sight.StopPending) && !s.j.Database.Stop {
		if stopping, err := s.agent.Stopping(ctx); err != nil {
			return err
		} else if stopping {
			return health.ErrHostStopping
		}
		s.log.Info("the agent was stopped since the transaction began, and stays down", "version", s.req.To.String())
		return s.j.setAgent(state.AgentStopped)
	}
	if sight.Running() && s.j.Agent.State == state.AgentRunning {
		w.CanStart = s.held.canStart
	}
	if sight.Ties.Commands { // with the end of the first process: a run that goes on after a kill cannot see it
		w.Looked = func() { warn(s.log, s.journalRemovedData(ctx), "whether the agent's data were removed cannot be told") }
	}
	by := health.Reload
	switch {
	case s.j.Database.Stop:
		by = health.Start
	case s.req.Restart, s.j.Agent.State == state.AgentFailing, s.j.Agent.Program != sight.ExecStart:
		// A reload would make an agent that was started by another path, say a package's, start that path
		// again.
		by = health.Restart
	}
	outcome, err := s.health.Prove(ctx, by, w)
	if err != nil {
		return err
	}
	s.log.Info("the agent is healthy", "version", s.req.To.String(), "restarted", outcome.Restarted)
	return nil
}
