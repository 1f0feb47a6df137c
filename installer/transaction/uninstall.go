package transaction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/executable"
	"teleport-update/internal/failure"
	"teleport-update/internal/space"
	"teleport-update/versions"
)

// An uninstall removes the updater. The agent stays as it runs: nothing stops or restarts it, and no database moves. An uninstall is no
// transaction: each of its steps can be repeated, so a command that was cut off is run again.

// Uninstall is an uninstall: what the checks found, and what is left once it is over.
type Uninstall struct {
	WithAgent bool
	Config    state.Config
	// Programs are the files of the agent in the folder of links, and Unit is its unit: plain files without the updater.
	Programs []string
	Unit     string
	// Executing are folders from which processes execute, so that they stay; Unseen is why others may. AtBoot means that the next boot
	// removes them.
	Executing []string
	Unseen    error
	AtBoot    bool
	// tree is the version that becomes plain files; nil if its links and unit are plain files already, or go.
	tree *versions.Tree
}

// CheckUninstall says what keeps the host from its state without the updater. It changes nothing.
func (m *Machine) CheckUninstall(ctx context.Context, withAgent bool, seen Seen) (u Uninstall, err error) {
	u = Uninstall{WithAgent: withAgent, Unit: m.Host.Paths.Unit()}
	if u.Config, err = m.FreshConfig(); err != nil {
		return u, err
	}
	if !host.Absent(m.Host.Paths.Journal()) {
		return u, failure.Unchanged("a change of version is open, and the files that it needs would be removed").
			To("`teleport-update update` closes it, then run the command again").Refused()
	}
	if !withAgent {
		sight, err := seen.Sight(ctx)
		if err != nil {
			return u, err
		}
		if isStopOfOurs(m, sight) {
			return u, failure.Unchanged("the agent is down since a change of version or a restart that was cut off").
				To("`teleport-update update` starts it, then run the command again").Refused()
		}
	}
	if err = m.checkAgentStays(ctx, &u, seen); err != nil {
		return u, err
	}
	u.Executing, u.Unseen, err = m.Host.Store.Executing(host.UpdaterName)
	if err != nil {
		return u, fmt.Errorf("find out what executes versions: %w", err)
	}
	u.AtBoot = m.Host.RemovesAtBoot(u.Executing)
	if _, err := m.BackupsToKeep(ctx); err != nil {
		return u, failure.Unchanged("find out which backups to keep: %w", err).Refused()
	}
	return u, m.checkEnds(u)
}

// checkAgentStays refuses to leave an agent that may not start again without the updater.
func (m *Machine) checkAgentStays(ctx context.Context, u *Uninstall, seen Seen) error {
	c := u.Config
	if c.Spec.ActiveVersion == "" {
		if err := m.Host.CheckNothingLinked(); err != nil {
			return failure.Unchanged("%s names no active version, but the updater may have installed the agent: %v", m.Host.Paths.Config(), err).
				To("`teleport-update enable` first, then uninstall").Refused()
		}
		return nil
	}
	tree, whole, err := m.Active(c)
	if err != nil {
		return err
	}
	plain, err := m.isPlain()
	if err != nil {
		return err
	}
	if u.WithAgent && !whole && !plain {
		return nil // regular files are somebody else's
	}
	if !u.WithAgent && !plain {
		if tree, err = m.toKeep(c); err == nil {
			err = checkKeeps(ctx, m, c, tree, seen)
		}
		if err != nil {
			return err
		}
		u.tree = &tree
	}
	u.Programs, err = m.Host.Programs(tree)
	return err
}

// isPlain reports whether links and unit are plain files already, as after an uninstall that was cut off.
func (m *Machine) isPlain() (bool, error) {
	links, err := m.Host.Store.LinksInto(m.Host.Paths.LinkDir)
	if err != nil || len(links) > 0 {
		return false, err
	}
	program := filepath.Join(m.Host.Paths.LinkDir, host.AgentName)
	info, err := os.Lstat(program)
	if err != nil || !info.Mode().IsRegular() {
		return false, nil
	}
	why, err := executable.Why(program)
	if err != nil || why != nil {
		return false, err
	}
	unit, err := host.ReadUnit(m.Host.Paths.Unit())
	return err == nil && !host.UnitLost(unit), err
}

// toKeep returns the version whose agent stays on the host.
func (m *Machine) toKeep(c state.Config) (versions.Tree, error) {
	tree, ok, err := m.Active(c)
	if err == nil && !ok {
		err = failure.Unchanged("version %s is not whole on disk, so there is nothing to keep", c.Spec.ActiveVersion).
			To("`teleport-update enable` repairs it").Refused()
	}
	return tree, err
}

// checkEnds refuses an uninstall that could not be ended, for example on a read-only or full file system.
func (m *Machine) checkEnds(u Uninstall) error {
	var copies map[string]string
	var units []string
	var err error
	switch {
	case u.WithAgent:
		units = []string{u.Unit}
	case u.tree != nil:
		copies, err = host.PlainCopies(m.Host, *u.tree)
	}
	if err == nil {
		err = host.CanLeave(m.Host, copies, units)
	}
	if err == nil {
		return nil
	}
	fix := "correct that"
	if path, is := errors.AsType[*os.PathError](err); is {
		fix = fmt.Sprintf("make %s writable (`findmnt -T %[1]s` and `lsattr -d %[1]s` show what is in the way)", path.Path)
	}
	if failure.Is[*space.Error](err) {
		fix = "make room there for programs that take the places of links"
	}
	return failure.Unchanged("the uninstall is refused, for it could not be ended: %w", err).
		To("%s; then run the command again", fix).Refused()
}

// uninstalling is an uninstall at work.
type uninstalling struct {
	*Uninstall
	m     *Machine
	agent Agent
}

// uninstallSteps are the steps of an uninstall, in their order. Each of them can be repeated.
func uninstallSteps() []struct {
	what string
	do   func(uninstalling, context.Context) error
} {
	return []struct {
		what string
		do   func(uninstalling, context.Context) error
	}{
		{"turn updates off", uninstalling.turnOff}, // the timer must not repair files that are being taken away
		{"leave the agent as plain files", uninstalling.leaveAgent},
		{"stop the reports to the cluster", uninstalling.stopReports},
		{"remove the timer and the recovery", func(u uninstalling, ctx context.Context) error { return u.m.Host.RemoveUnits(ctx, u.agent) }},
		{"remove the agent", uninstalling.removeAgent},
		{"remove the notes of stops", uninstalling.removeNotes},
		{"keep backups", func(u uninstalling, ctx context.Context) error { return u.m.keepBackups(ctx) }},
		{"remove the links", func(u uninstalling, _ context.Context) error { return u.m.Host.RemoveLinks() }},
		{"remove the versions", uninstalling.removeStore},
	}
}

// Uninstall removes the updater from the host, and the agent too if that is asked for.
func (m *Machine) Uninstall(ctx context.Context, withAgent bool) (u Uninstall, err error) {
	unlock, err := m.LockUpdates(ctx)
	if err != nil {
		return u, err
	}
	defer unlock()
	if u, err = m.CheckUninstall(ctx, withAgent, m); err != nil {
		return u, err
	}
	agent, err := m.Connect(ctx) // without the notes of stops: nothing is to start the agent again
	if err != nil {
		return u, failure.Unchanged("reach systemd: %w", err)
	}
	defer agent.Close()
	m.cleanUp(ctx)
	at := uninstalling{&u, m, agent}
	for _, s := range uninstallSteps() {
		if err := s.do(at, ctx); err != nil {
			return u, fmt.Errorf("%s: %w; the uninstall is not finished: run the command again", s.what, err)
		}
	}
	m.Host.Log.Info("the updater is uninstalled", "agent_removed", withAgent)
	return u, nil
}

func (u uninstalling) turnOff(context.Context) error {
	if !u.Config.Spec.Enabled {
		return nil
	}
	u.Config.Spec.Enabled = false
	return u.Config.Save(u.m.Host.Paths.Config())
}

// leaveAgent makes links and unit of the active version plain files.
func (u uninstalling) leaveAgent(context.Context) error {
	if u.WithAgent || u.Config.Spec.ActiveVersion == "" {
		return nil
	}
	if u.tree != nil {
		if err := host.PlaceLost(u.m.Host, *u.tree); err != nil {
			return err
		}
		if err := host.LeavePlainFiles(u.m.Host.Paths.LinkDir, *u.tree); err != nil {
			return err
		}
	}
	// The agent that stays needs them, and the updater's own files are removed later.
	kept, err := u.m.Host.OwnUnits().KeepCarried()
	if kept != "" {
		u.m.Host.Log.Info("what an administrator wrote into the agent's unit stays in force, in a drop-in that is theirs from now on",
			"file", kept)
	}
	return err
}

func (u uninstalling) stopReports(context.Context) error {
	u.m.warn(state.RemoveTextfile(u.Config.Spec.TextfileDir), "the metrics for node_exporter stay", "folder", u.Config.Spec.TextfileDir)
	_, err := u.m.Host.ReportToCluster(false)
	return err
}

// removeAgent stops the agent and removes its unit, its programs and the files that came with --token-file.
func (u uninstalling) removeAgent(ctx context.Context) error {
	if !u.WithAgent || u.Config.Spec.ActiveVersion == "" {
		return nil
	}
	if err := u.agent.Disable(ctx); err != nil {
		return err
	}
	if err := u.agent.Stop(ctx, inOrder); err != nil {
		return fmt.Errorf("stop the agent: %w", err)
	}
	if err := host.RemovePlaced(u.m.Host); err != nil {
		return err
	}
	// Before the unit: without the versions, the unit is what shows that the programs are ours.
	if err := host.RemovePlainFiles(u.Programs); err != nil {
		return err
	}
	if err := host.RestoreUnit(state.UnitFile{Path: u.Unit}); err != nil {
		return err
	}
	return u.agent.DaemonReload(ctx)
}

// removeNotes removes the notes in /run of a stop of the agent. Without the updater, nothing starts the units that went down with it.
func (u uninstalling) removeNotes(ctx context.Context) error {
	if units, err := wentDown(ctx, u.m, u.agent); err == nil && len(units) > 0 && !u.WithAgent {
		u.m.Host.Log.Warn("units went down with the agent in an earlier change of version; start those that are still down",
			"units", strings.Join(units, ", "))
	}
	return errors.Join(forgetWentDown(u.m), forgetStop(u.m.Host.Paths.Stopped()))
}

// removeStore removes the versions, except for those from which processes execute. The configuration, by which the command finds the
// rest when it is repeated, is the last file to go.
func (u uninstalling) removeStore(context.Context) (err error) {
	if u.Executing, u.Unseen, err = u.m.Host.Store.Executing(host.UpdaterName); err != nil {
		return fmt.Errorf("find out what executes them: %w", err)
	}
	u.AtBoot = u.m.Host.RemovesAtBoot(u.Executing)
	if u.AtBoot && len(u.Executing) > 0 {
		if err := u.m.Host.RemoveAtBoot(u.Executing); err != nil {
			return err
		}
	}
	if err := u.m.Host.Store.Clear(u.Executing, filepath.Base(u.m.Host.Paths.Config())); err != nil {
		return err
	}
	// Empty if no agent ever ran; anything in it is the agent's.
	_ = durable.RemoveEmpty(u.m.Host.Paths.DataDir)
	return nil
}
