package transaction

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"teleport-update/health"
	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// uninstall takes the updater off the host. The agent goes back to what the first enable found,
// which may be none, or it stays as plain files.
func (m *Machine) uninstall(ctx context.Context, u state.Uninstall) error {
	c, unlock, err := m.Open(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	return m.uninstallLocked(ctx, c, agent, u)
}

func (m *Machine) uninstallLocked(ctx context.Context, c state.Config, agent Agent, u state.Uninstall) error {
	if err := readUnit(ctx, m, agent); err != nil {
		return err
	}
	database, err := m.CheckUninstall(ctx, c, u, m)
	if err != nil {
		return err
	}
	j := m.newJournal(ctx, agent)
	j.Uninstall = &u
	t := &transaction{m: m, agent: agent}
	defer t.closeDatabase()
	sight, err := agent.Look(ctx)
	if err != nil {
		return err
	}
	j.Agent = sight.asFound()
	if j.Agent.Dependents, err = goesDown(ctx, agent, sight.Ties); err != nil {
		return err
	}
	j.Database.Absent = database.Absent
	if database.Plan != state.KeepDatabase {
		j.Database, u.KeepsIn = database, m.keptDir(c.Spec.ActiveVersion)
		if database.Plan == state.RestoreDatabase {
			err = t.canLeave(ctx, c, sight, &j.Database)
		} else {
			j.Database.Dir = u.KeepsIn
			err = t.holdDatabase(ctx, &j.Database)
		}
		if err != nil {
			return err
		}
	}
	if err := m.suitRescuer(ctx, j); err != nil {
		return failure.Unchanged("%w", err)
	}
	if j.Config, err = c.Text(); err != nil {
		return err
	}
	// The timer must not repair files that are being taken away.
	c.Spec.Enabled = false
	if err := c.Save(m.Host.Paths.Config()); err != nil {
		return err
	}
	t.j = newOpenJournal(m.Host.Paths.Journal(), j)
	if c.Spec.ActiveVersion != "" {
		if err := t.j.enter(uninstalling); err != nil {
			return err
		}
	}
	return t.finishUninstall(ctx, c)
}

// CheckUninstall says what keeps the host from its state without the updater, and what happens to
// the agent's database. It changes nothing.
func (m *Machine) CheckUninstall(ctx context.Context, c state.Config, u state.Uninstall, seen Seen) (state.Database, error) {
	keeps := state.Database{Plan: state.KeepDatabase}
	switch {
	case c.Spec.ActiveVersion == "":
		// All of the store goes, and nothing is put in the place of links into it.
		if err := m.Host.CheckNeverEnabled(); err != nil {
			return keeps, failure.Unchanged("%s names no active version, but the updater may have installed the agent: %v", m.Host.Paths.Config(),
				err).
				To("`teleport-update enable` first, then uninstall").Refused()
		}
		return keeps, nil
	case u.KeepAgent:
		if err := checkKeeps(ctx, m, c, seen); err != nil {
			return keeps, err
		}
		return keeps, checkEnds(ctx, m, c, u)
	}
	o, err := m.Host.Originals()
	if err == nil {
		err = m.Host.PlainUnit(ctx, &o)
	}
	if err == nil {
		err = m.Host.CheckPutBack(o)
	}
	if err != nil {
		return keeps, err
	}
	if program, comes := m.Host.AgentBefore(o); comes {
		keeps, err = m.planLeave(ctx, c, program)
	}
	if err == nil && keeps.Plan != state.KeepDatabase {
		err = m.checkRoom(keeps, keeps.Dir)
	}
	if err == nil {
		err = o.CheckInTheWay() // last but for room: a program that changed the database is to stay in its place
	}
	if err == nil {
		err = checkEnds(ctx, m, c, u)
	}
	return keeps, err
}

// finishUninstall can be cut off anywhere and begun again.
func (t *transaction) finishUninstall(ctx context.Context, c state.Config) error {
	if t.isCalledOff() {
		return t.callOff(ctx, c)
	}
	// If it goes on after a cut, updates.yaml may have been lost meanwhile.
	if c.Spec.ActiveVersion != "" || t.j.Phase == uninstalling {
		if err := t.goBack(ctx, c); err != nil {
			return err
		}
		if err := t.startOriginal(ctx); err != nil {
			if err = t.orCallOff(ctx, c, err); err != nil {
				return err
			}
		}
		t.startDependents(ctx)
	}
	if !t.keepsAgent() {
		// Remove files that came with today's version, which may have come back until here.
		if err := host.RemovePlaced(t.m.Host); err != nil {
			return err
		}
	}
	t.m.warn(dropNeedless(ctx, t), "a backup of the agent's database stays", "folder", t.asked().KeepsIn)
	if err := t.m.keepBackups(ctx); err != nil {
		return err
	}
	if err := t.m.Host.RemoveUnits(ctx, t.agent); err != nil {
		return err
	}
	if !t.keepsAgent() {
		if err := t.bringOthersBack(ctx); err != nil {
			return err
		}
	}
	t.m.warn(state.RemoveTextfile(c.Spec.TextfileDir), "the metrics for node_exporter stay", "folder", c.Spec.TextfileDir)
	// First: the journal, which has this done again after a cut, is in the other folder.
	if err := t.m.Host.Store.RemovePrograms(); err != nil {
		return fmt.Errorf("remove the programs of versions: %w; run the command again", err)
	}
	if err := durable.RemoveMounted(t.m.Host.Paths.Versions(), filepath.Base(t.m.Host.Paths.Journal())); err != nil {
		return fmt.Errorf("remove the version store: %w; run the command again", err)
	}
	// Empty if no agent ever ran; anything in it is the agent's.
	_ = durable.RemoveEmpty(t.m.Host.Paths.DataDir)
	t.m.Host.Log.Info("the updater is uninstalled", "agent_kept", t.keepsAgent())
	return nil
}

// startOriginal makes the host run the agent that the first enable found.
func (t *transaction) startOriginal(ctx context.Context) error {
	if t.keepsAgent() {
		return nil
	}
	if err := t.agent.DaemonReload(ctx); err != nil {
		return err
	}
	sight, err := t.agent.Look(ctx)
	if err != nil {
		return err
	}
	// Last, so that an agent runs whenever this is cut off.
	switch {
	case sight.LoadState == "not-found":
		if err := t.agent.Stop(ctx, atOnce); err != nil && sight.ActiveState != "inactive" {
			return fmt.Errorf("stop the agent: %w", err)
		}
		return t.agent.Disable(ctx)
	case t.asked().Proven: // a later part failed, and is no reason to restart the agent once more
		return nil
	case sight.State.Wanted(), t.stoppedHere(ctx):
		if err := t.proveOriginal(ctx, sight); err != nil {
			return err
		}
		return t.j.journalOriginalProven()
	}
	return nil
}

// uninstallAgain goes on with an uninstall that was cut off.
func (t *transaction) uninstallAgain(ctx context.Context) error {
	t.m.Host.Log.Warn("going on with an uninstall that was cut off", "begun", t.j.Started)
	c, err := t.found()
	if err == nil {
		err = t.finishUninstall(context.WithoutCancel(ctx), c)
	}
	switch {
	case errors.Is(err, health.ErrHostStopping):
		return errNeedsBoot
	case host.Absent(t.m.Host.Paths.Journal()):
		return err // it is over, also if it was called off
	case err != nil:
		return &failure.NeedsPersonError{Err: fmt.Errorf("uninstall: %w; the next run tries again",
			failure.In("the uninstall is not finished", err))}
	}
	return nil
}

// releaseAtBoot makes sure that the agent finds the files that it is started from after an
// uninstall was cut off; the rest is for the next run.
func (t *transaction) releaseAtBoot(ctx context.Context) error {
	t.m.Host.Log.Warn("going on with an uninstall that was cut off, before the agent starts", "begun", t.j.Started)
	c, err := t.found()
	if err != nil {
		return err
	}
	back := t.goBackAtBoot
	if t.isCalledOff() {
		back = t.placeToday
	}
	if err := back(ctx, c); err != nil {
		return &failure.NeedsPersonError{Err: fmt.Errorf("uninstall: %w; the next run tries again",
			failure.In("the uninstall is not finished", err))}
	}
	// Files go back without systemd, and the rest of the uninstall has it read them.
	_, err = t.reloadOrLeave(ctx)
	return err
}

// toKeep returns the version whose agent stays on the host.
func (m *Machine) toKeep(c state.Config) (versions.Tree, error) {
	tree, ok, err := m.Active(c)
	if err == nil && !ok {
		err = failure.Unchanged("version %s is not whole on disk, so there is nothing to keep", c.Spec.ActiveVersion).
			To("`teleport-update enable` repairs it")
	}
	return tree, err
}

func (t *transaction) keepsAgent() bool { return t.asked().KeepAgent }

// asked returns the uninstall that goes on; a journal of an older program may not have it.
func (t *transaction) asked() state.Uninstall {
	if t.j.Uninstall == nil {
		return state.Uninstall{}
	}
	return *t.j.Uninstall
}

// releaseFiles puts links and unit into their state without the updater.
func (t *transaction) releaseFiles(ctx context.Context, c state.Config) error {
	err := t.releaseAgent(ctx, c)
	if err == nil {
		_, err = t.m.Host.ReportToCluster(false)
	}
	return err
}

func (t *transaction) releaseAgent(ctx context.Context, c state.Config) error {
	if !t.keepsAgent() {
		return t.m.Host.PutBack(ctx)
	}
	tree, err := t.m.toKeep(c)
	if err != nil {
		return err
	}
	if err := host.PlaceLost(t.m.Host, tree); err != nil {
		return err
	}
	if err := host.LeavePlainFiles(t.m.Host.Paths.LinkDir, tree); err != nil {
		return err
	}
	// The agent that stays needs them, and the updater's own files are removed later.
	kept, err := t.m.Host.OwnUnits().KeepCarried()
	if kept != "" {
		t.m.Host.Log.Info("what an administrator wrote into the agent's unit stays in force, in a drop-in that is theirs from now on",
			"file", kept)
	}
	return err
}
