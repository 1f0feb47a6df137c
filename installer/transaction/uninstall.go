package transaction

import (
	"context"

	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// uninstall takes the updater off the host. The agent goes back to what the first
// enable found, which may be none, or it stays, as plain files.
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
	// The timer must not repair what is being taken away.
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

// CheckUninstall says what keeps the host from being what it is to be without the
// updater, and what becomes of the agent's database. It changes nothing.
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
