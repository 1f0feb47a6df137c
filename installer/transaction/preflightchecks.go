package transaction

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teleport-update/backup"
	"teleport-update/installer/host"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/internal/space"
	"teleport-update/systemd"
)

// preflightChecks returns all checks that can refuse a transaction before its journal is open, in the
// order in which they are asked. A check that depends on the moment is asked when the change is to
// begin: before a download it would say nothing.
func preflightChecks() []preflightCheck {
	return []preflightCheck{
		{name: "systemd has read the units", needs: Change | Now, check: unitsRead},
		{name: "the agent sees the version", needs: Change | wanted, check: seesVersion, standing: true,
			sentence: "a version could not be started: %[1]w"},
		{name: "the agent is seen", needs: Change, check: isSeen, standing: true,
			sentence: "nobody could tell whether a version is healthy: %[1]w",
			advice:   "see `systemctl cat teleport-update.service` and the drop-ins of teleport-update-switch-.service"},
		{name: "no other updater", check: noOthers},
		{name: "the agent's unit", check: unitIsOurs},
		{name: "the agent is not frozen", needs: Change | wanted, check: isThawed, standing: true, stays: true},
		{name: "the host stays up", needs: Change | Now | stopped, check: hostStaysUp, stays: true},
		{name: "nobody stops the agent", needs: Change | Now, check: notBeingStopped, stays: true},
		{name: "a version can be proven", needs: Change | replaces | stopped, check: notProven},
		{name: "plan for the database", needs: Change, check: planned},
		{name: "the database is whole", needs: Change | Deep | exchanges, check: databaseWhole},
		{name: "the agent starts again", needs: Change | running, check: startsAgain, standing: true,
			sentence: "the agent, which runs, would not start again as it is: %[1]w"},
		{name: "the units that the agent needs start", needs: Change | running, check: needsStart,
			sentence: "the agent, which runs, would not start again as it is: %[1]w"},
		{name: "no needed unit has failed", needs: Change | running, check: noNeedFailed, stays: true},
		{name: "files are open to the agent's user", needs: Change | wanted, check: filesOpen,
			sentence: "a version could not be started: %[1]w"},
		{name: "the database is there", needs: Change, check: databaseThere},
		{name: "room for the database", needs: Change | Now | onDisk, check: roomForDatabase},
		{name: "the database is held", needs: Change | Now, check: databaseHeld},
		{name: "systemd stops the agent", needs: Change | wanted, check: stopsIfAsked, standing: true, stays: true},
		{name: "a stop ends", needs: Change | running | stops, check: stopEnds, stays: true},
		{name: "no job is ahead", needs: Change | Now | wanted, check: noJobAhead, standing: true, stays: true},
		{name: "nothing starts the agent again", needs: Change | wanted | exchanges, check: nothingStartsIt, standing: true,
			stays: true},
		{name: "a stop leaves no process", needs: Change | Now | wanted | exchanges, check: stopLeavesNone, standing: true,
			stays: true},
		{name: "nobody uses the database", needs: Change | Now | wanted | stops, check: databaseUnused},
		{name: "the active version is linked", needs: Change, check: activeLinked, stays: true},
		{name: "the agent's unit leads it", needs: Change, check: ledAlike, stays: true},
		{name: "links", needs: Change | Now | onDisk, check: linksPlanned, stays: true},
		{name: "folders of links and unit", needs: Change | Now | onDisk, check: foldersWritable,
			sentence: "put version %[2]s in its place: %[1]w", advice: "see that the folder can be written"},
		{name: "room in /run", needs: Change, check: roomInRun, standing: true},
		{name: "the agent is tried", needs: Change | running, check: agentTried},
		{name: "the version is tried", needs: Change | wanted | onDisk, check: versionTried},
		{name: "unit of the recovery", needs: Change | OwnUnits, check: recoveryStarts},
		{name: "the recovery is tried", needs: Change | OwnUnits, check: recoveryTried},
		{name: "limits of the updater's units", needs: Change | OwnUnits, check: undoingHasTime},
		{name: "recovery at boot", needs: Change | OwnUnits, check: recoveryRuns,
			sentence: "the recovery at boot, which would repair an update that a power cut ends, cannot run its program: %[1]w",
			advice:   "make the program executable (`teleport-update verify` says what is in the way), then run the command again"},
	}
}

// Preflight looks at the agent. The owner has to close it.
func (m *Machine) Preflight(ctx context.Context) (*Preflight, error) {
	agent, err := m.Agent(ctx)
	if err != nil {
		return nil, err
	}
	t := &transaction{m: m, agent: agent, took: map[string]time.Duration{}}
	p, err := t.preflight(ctx)
	if err != nil {
		t.letGo()
		return nil, err
	}
	return p, nil
}

func (t *transaction) preflight(ctx context.Context) (*Preflight, error) {
	sight, err := t.agent.Look(ctx)
	return &Preflight{Sight: sight, t: t, checks: preflightChecks(), asked: map[string]bool{}}, err
}

// unitsRead makes systemd read the files of the agent's unit and of the recovery if they changed since it did: the
// transaction makes it do so later, and the checks that follow would be about another unit. A caller that only asks changes
// nothing, and says so.
func unitsRead(p *Preflight, ctx context.Context) error {
	unread, err := p.unread(ctx)
	switch {
	case err != nil, len(unread) == 0:
		return err
	case p.stage&Deep != 0:
		p.t.m.Host.Log.Warn("systemd has an older text of units than their files, and this is about the older one: the change has it read "+
			"the files first, and asks again", "units", strings.Join(unread, " "))
		return nil
	case p.stage&begins == 0:
		return nil
	}
	// An agent whose unit was led elsewhere since its start is not to be taken for an agent of the other place.
	if err := p.t.m.Host.AgentUnit().CheckLoaded(p.Sight.Unit); err != nil {
		return err
	}
	p.t.m.Host.Log.Info("units changed since systemd read them: it reads their files again", "units", strings.Join(unread, " "))
	if err := p.t.agent.DaemonReload(ctx); err != nil {
		return fmt.Errorf("have systemd read changed units: %w; %s", err, StaysAsItIs(p.config))
	}
	p.Sight, err = p.t.agent.Look(ctx)
	return err
}

// unread names the units whose files changed since systemd read them.
func (p *Preflight) unread(ctx context.Context) (names []string, err error) {
	recovery, err := p.t.agent.Unit(ctx, p.t.m.Host.OwnUnits().Recovery())
	for _, u := range []systemd.Unit{p.Sight.Unit, recovery} {
		if p.t.m.Host.AgentUnit().Unread(u) {
			names = append(names, u.Name)
		}
	}
	return names, err
}

// seesVersion: an agent that is started again has to see the folders that a version is started from.
func seesVersion(p *Preflight, _ context.Context) error {
	if err := host.CheckAccess(p.Sight.Unit, systemd.Seeing, p.t.m.Host.Paths.LinkDir); err != nil {
		return err
	}
	return host.CheckAccess(p.Sight.Unit, systemd.Executing, p.t.m.Host.Paths.Programs())
}

// isSeen: a process that may not look at the agent's process would take an agent that serves for a
// dead one, restart it, and blame the version.
func isSeen(p *Preflight, _ context.Context) error { return p.Sight.hidden() }

func noOthers(p *Preflight, _ context.Context) error { return p.t.m.Host.CheckOthers(p.req.Replace) }

func unitIsOurs(p *Preflight, _ context.Context) error {
	if err := p.t.m.Host.CheckUnit(p.Sight.Unit); err != nil {
		return err
	}
	return p.t.m.Host.AgentUnit().CheckLoaded(p.Sight.Unit)
}

func isThawed(p *Preflight, _ context.Context) error { return p.Sight.frozen() }

// notProven: the other updater is removed once a version is proven, by an agent that runs.
func notProven(*Preflight, context.Context) error {
	return failure.Unchanged("the agent does not run, so no version can be proven, and the other updater stays").To("start the agent first").
		Refused()
}

func planned(p *Preflight, ctx context.Context) (err error) {
	p.Database, err = p.t.m.planDatabase(ctx, p.Sight, p.config, p.req)
	return err
}

// databaseWhole looks for damage that the backup would find. A plan that stops the agent has looked already.
func databaseWhole(p *Preflight, ctx context.Context) error {
	if p.Database.Stop {
		return nil
	}
	return inspect(ctx, &p.Database, p.req)
}

func startsAgain(p *Preflight, ctx context.Context) error {
	return p.t.m.checkStartsAgain(ctx, p.t.agent, p.Sight, p.Database.Path)
}

func needsStart(p *Preflight, ctx context.Context) error {
	return host.CheckNeeds(ctx, p.Sight.Unit, p.t.agent.Unit)
}

// noNeedFailed: a downgrade stops the agent, and so may an undoing of any change. An agent that is down has nothing to lose by a try.
func noNeedFailed(p *Preflight, ctx context.Context) error {
	return host.CheckNeedFailed(ctx, p.Sight.Unit, p.t.agent.Unit)
}

// filesOpen: no version starts if its user may not use the files of the agent, and no version is to be blamed for that.
// An agent that serves has them open, and one that fails may fail for them.
func filesOpen(p *Preflight, ctx context.Context) error {
	var programs []string
	if p.holds()&onDisk != 0 {
		programs = append(programs, p.Tree.Binary(host.AgentName))
	}
	return checkReach(ctx, p.t.m, p.t.agent, p.Sight, programs...)
}

// databaseThere refuses to take a missing database for one that never was: its file system may not be mounted. There would be no backup
// to go back to, and a downgrade would leave the newer version's database to the older one. A person may know better.
func databaseThere(p *Preflight, _ context.Context) error {
	had := p.config.Status.ActiveSchema != "" && !losesData(p.Sight, p.Database.Path)
	if !p.Database.Absent || !had || p.req.Force || p.req.SkipBackup {
		return nil
	}
	return failure.Unchanged("the agent's database %s is missing, and version %s had one", p.Database.Path, p.config.Active().Short()).
		To("mount its file system or put it back; if it was removed on purpose, start the agent, which makes an empty one, or go on without "+
			"a database by `teleport-update %s`", p.req.insisting()).Refused()
}

// roomForDatabase lets the transaction remove a version that failed, if there is no room otherwise.
func roomForDatabase(p *Preflight, ctx context.Context) error {
	dir := p.Tree.BackupDir()
	err := p.t.m.checkRoom(p.Database, dir)
	if failure.Is[*space.Error](err) && p.stage&begins != 0 && p.t.m.DropFailed(ctx, p.config, p.req.To.Release) {
		err = p.t.m.checkRoom(p.Database, dir)
	}
	return err
}

func databaseHeld(p *Preflight, ctx context.Context) error { return p.t.holdDatabase(ctx, &p.Database) }

// The next checks ask, before anything is changed, what systemd will do with the agent's unit. Each
// change may have to be undone, which takes a stop, a database at rest, and a start.

func stopsIfAsked(p *Preflight, _ context.Context) error {
	return p.t.m.Host.CheckCanStop(p.Sight.Unit)
}

func noJobAhead(p *Preflight, ctx context.Context) error {
	by, err := p.t.agent.Blockers(ctx, p.Sight)
	if err == nil && len(by) > 0 {
		err = &failure.RefusedError{Err: &systemd.BlockedError{Unit: p.t.m.Host.Paths.AgentUnit(), By: by}}
	}
	return err
}

func nothingStartsIt(p *Preflight, ctx context.Context) error {
	starters, err := p.t.agent.ActiveOf(ctx, p.Sight.Ties.Starters)
	if err == nil && len(starters) > 0 {
		err = failure.Refuse("%s starts the agent again whenever it is down (Upholds=, or a .path unit), so its database cannot be exchanged: "+
			"`systemctl stop %[1]s` for the change, or remove that", strings.Join(starters, " "))
	}
	return err
}

// stopLeavesNone: a process of the agent's that outlives a stop would be in the way of a restore once
// the agent is down.
func stopLeavesNone(p *Preflight, _ context.Context) error {
	if !p.Sight.Ties.SparesProcesses() || p.t.db == nil {
		return nil
	}
	err := p.t.db.CheckUnused(p.Sight.ended())
	if !failure.Is[*backup.InUseError](err) {
		return err
	}
	return failure.Refuse("%w; a stop of %s leaves it (%s), so the database could not be exchanged: wait for the end of its sessions",
		err, p.t.m.Host.Paths.AgentUnit(), p.Sight.Ties.Sparing())
}

// databaseUnused is asked before the agent is stopped in vain. Only a transaction waits.
func databaseUnused(p *Preflight, ctx context.Context) error {
	patience := p.t.m.UserPatience
	if p.stage&begins == 0 {
		patience = 0
	}
	return cannotBegin(p.t.waitUnused(ctx, patience), p.req, StaysAsItIs(p.config))
}

// activeLinked refuses a change while the agent's link does not lead to the version that runs: an
// undoing puts the present link back, and would start its program on the database of the running
// version.
func activeLinked(p *Preflight, _ context.Context) error {
	active, ok, err := p.t.m.Active(p.config)
	if err == nil && ok {
		err = runningLinked(p.t.m.Host, p.Sight, active.Release)
	}
	if err != nil || !ok {
		return err
	}
	link := filepath.Join(p.t.m.Host.Paths.LinkDir, host.AgentName)
	program, err := filepath.EvalSymlinks(link)
	ours, ownErr := filepath.EvalSymlinks(active.ProgramsDir())
	if ownErr != nil || strings.HasPrefix(program, ours+"/") || !p.Sight.servesFrom(active.ProgramsDir()) {
		return nil
	}
	leads := "leads to " + program
	if err != nil {
		leads = "leads to no program"
	}
	return failure.Refuse("%s %s, and the agent runs version %s: if the change had to be undone, "+
		"the agent would not start again on its database; "+
		"`teleport-update update` puts the link back (`teleport-update enable`, if updates are disabled)", link, leads, active.Release.Short())
}

// ledAlike: a unit that somebody wrote may lead the agent elsewhere than the active version's own. The unit of another version is
// not checked. The first enable keeps the arguments, or says why it cannot.
func ledAlike(p *Preflight, ctx context.Context) error {
	active, ok, err := p.t.m.Active(p.config)
	if err != nil || !ok {
		return err
	}
	return CheckLed(ctx, p.t.m, active, p.t.m)
}

func linksPlanned(p *Preflight, _ context.Context) (err error) {
	if p.links, err = p.t.m.Host.PlanLinks(p.Tree); err != nil {
		return err
	}
	// The updater's own link is made once the version is proven, which is too late to find that it
	// cannot be made.
	_, err = host.PlanUpdaterLink(p.t.m.Host.Paths.LinkDir, p.Tree)
	return err
}

func foldersWritable(p *Preflight, _ context.Context) error {
	return p.t.m.Host.CanPlace(p.links, p.Tree)
}

func roomInRun(*Preflight, context.Context) error { return CheckRun(SystemdRun) }

const uncounted = "the recovery at boot, which would repair an update that a power cut ends, cannot be counted on: %w"

// recoveryStarts: a drop-in may keep systemd from starting the recovery at boot, or the recovery from its work.
func recoveryStarts(p *Preflight, ctx context.Context) error {
	u, err := p.t.agent.Unit(ctx, p.t.m.Host.OwnUnits().Recovery())
	p.recovery = u
	if err != nil || u.LoadState == "not-found" { // the units of the updater come with the transaction
		return err
	}
	why := p.t.m.Host.CheckRecovery(ctx, u)
	if why == nil {
		why, err = host.CheckOwnNeeds(ctx, u, p.t.agent.Unit)
	}
	if why == nil {
		return err
	}
	why.What = fmt.Errorf(uncounted, why.What)
	why.State = StaysAsItIs(p.config)
	return why.Refused()
}

// undoingHasTime: a run of the timer, or the unit that this process is in, may have to undo the version. The recovery's limits are
// looked at with its unit.
func undoingHasTime(p *Preflight, ctx context.Context) error {
	var names []string
	if own := p.t.m.Host.OwnUnits(); !own.RecoveryOnly {
		names = append(names, own.Service())
	}
	if in := procfs.Host().ServiceOf(os.Getpid()); systemd.IsOwn(in) && !slices.Contains(names, in) {
		names = append(names, in)
	}
	for _, name := range names {
		u, err := p.t.agent.Unit(ctx, name)
		if err != nil {
			return err
		}
		if why := p.t.m.Host.CheckLimits(u); why != nil {
			why.State = StaysAsItIs(p.config)
			return why.Refused()
		}
	}
	return nil
}

func recoveryRuns(p *Preflight, ctx context.Context) error {
	program, _, err := p.t.m.AskRescuer(ctx)
	if loaded := p.recovery.ExecStart; err == nil && loaded != "" && loaded != program {
		_, err = host.LoadedRescuer(ctx, p.recovery) // a drop-in names another one
	}
	if err == nil {
		err = systemdRuns(ctx, p.t.agent, program)
	}
	return err
}
