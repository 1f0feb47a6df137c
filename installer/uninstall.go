package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
	"teleport-update/internal/procfs"
	"teleport-update/versions"
)

// Uninstall takes the updater off the host. The agent goes back to its state before the first enable, which may be no agent; with keepAgent
// it stays, as plain files. Its configuration and its data are never touched, except for the files that enable's --token-file put there.
func (i *Installer) Uninstall(ctx context.Context, keepAgent bool) error {
	now := i.surveyToChange()
	if _, err := now.Config(); errors.Is(err, fs.ErrPermission) {
		now.Close()
		return failure.Unchanged("read the configuration: %w", err) // systemd would refuse the unit with fewer words
	}
	if !keepAgent && i.Processes.SelfIn(i.Machine.Host.Paths.AgentUnit()) {
		i.Machine.Host.Log.Warn("this shell is served by the agent and may end with it; the uninstall goes on")
	}
	agent, err := now.Agent(ctx)
	now.Close()
	if err != nil {
		return err
	}
	if text := unstopped(agent.Sight, i.Processes, i.Machine.Host.Store); text != "" {
		i.Machine.Host.Log.Warn(text)
	}
	return i.Machine.DoTransient(ctx, transaction.Order{Uninstall: &state.Uninstall{KeepAgent: keepAgent}}, "Uninstall teleport-update")
}

// UninstallPlan says, line by line, what Uninstall would do, or returns the error of a refusal.
func (i *Installer) UninstallPlan(ctx context.Context, keepAgent bool) ([]string, error) {
	if host.Exists(i.Machine.Host.Paths.Journal()) {
		return []string{"A transaction was cut off and would be closed first."}, nil
	}
	now := i.survey()
	defer now.Close()
	c, err := now.Config()
	if err != nil {
		return nil, err
	}
	database, err := i.Machine.CheckUninstall(ctx, c, state.Uninstall{KeepAgent: keepAgent}, now.Seen())
	if err != nil {
		return nil, err
	}
	lines := []string{i.agentAfterUninstall(c, keepAgent)}
	about, err := i.databaseAfterUninstall(ctx, c, database)
	if err != nil {
		return nil, err
	}
	lines = append(lines, about...)
	places := i.Machine.Host.Paths.Versions()
	if programs := i.Machine.Host.Paths.Programs(); programs != places {
		places += " and " + programs
	}
	lines = append(lines, fmt.Sprintf("Removed: %s with all kept versions and their database backups, the updater's units.", places),
		"Kept: the agent's configuration and its data.")
	if !keepAgent && i.Processes.SelfIn(i.Machine.Host.Paths.AgentUnit()) {
		lines = append(lines, "Warning: this shell is served by the agent. It ends when the agent is stopped; the uninstall goes on.")
	}
	agent, err := now.Agent(ctx)
	if text := unstopped(agent.Sight, i.Processes, i.Machine.Host.Store); err == nil && text != "" {
		lines = append(lines, "Warning: "+text+".")
	}
	return lines, nil
}

// unstopped names processes that run from files that an uninstall removes, if no systemd could stop them, and says if there may be others
// that could not be looked at; empty if there are neither, or if systemd runs.
func unstopped(sight transaction.Sight, processes procfs.FS, store *versions.Store) string {
	if sight.State != state.AgentUnknown {
		return ""
	}
	executables, unseen := processes.Executables()
	// Process 1 always exists: if it is not shown, others may not be shown either.
	if why := processes.Hidden(1); unseen == nil && why != nil {
		unseen = processes.CouldNotLook(1, why)
	}
	var pids []string
	for _, e := range executables {
		_, ours := store.ReleaseOf(e.Path)
		switch {
		case e.PID == os.Getpid():
		case ours:
			pids = append(pids, strconv.Itoa(e.PID))
		case e.Hidden != nil && unseen == nil:
			unseen = processes.CouldNotLook(e.PID, e.Hidden)
		}
	}
	var texts []string
	if len(pids) > 0 {
		texts = append(texts, "systemd does not run here, so that nothing stops the agent: it goes on from files that are removed (PID "+
			strings.Join(pids, ", ")+"), and does not start again; end it by hand")
	}
	if unseen != nil {
		texts = append(texts, fmt.Sprintf("systemd does not run here, so that nothing stops an agent that runs, and not all processes "+
			"can be seen: %v; end by hand what executes files in %s", unseen, cmp.Or(store.Programs, store.Dir)))
	}
	return strings.Join(texts, "; ")
}

// databaseAfterUninstall says what happens to the agent's database and its backups, unless the database stays and no backup differs from
// it.
func (i *Installer) databaseAfterUninstall(ctx context.Context, c state.Config, d state.Database) ([]string, error) {
	if d.Plan == state.RestoreDatabase {
		return []string{fmt.Sprintf("Database: the agent that was here before cannot read the database of version %s. It gets the "+
			"backup in %s; the database of today is kept in %s.",
			c.Spec.ActiveVersion, d.Dir, i.Machine.Host.Paths.KeptBackups())}, nil
	}
	stays, err := i.Machine.BackupsToKeep(ctx)
	if err != nil || len(stays) == 0 {
		return nil, err
	}
	return []string{fmt.Sprintf("Database: stays as it is. Backups with other tables are moved to %s: %s.",
		i.Machine.Host.Paths.KeptBackups(), strings.Join(stays, ", "))}, nil
}

func (i *Installer) agentAfterUninstall(c state.Config, keepAgent bool) string {
	switch {
	case c.Spec.ActiveVersion == "":
		return "Agent: none of the updater's."
	case keepAgent:
		return fmt.Sprintf("Agent: version %s stays, as plain files in %s.", c.Spec.ActiveVersion, i.Machine.Host.Paths.LinkDir)
	}
	if o, err := i.Machine.Host.Originals(); err == nil && o.Unit.Content == nil && len(o.Packages) == 0 {
		return fmt.Sprintf("Agent: version %s is stopped and removed; there was none before the first enable.", c.Spec.ActiveVersion)
	}
	return fmt.Sprintf("Agent: version %s is replaced by the one that was here before the first enable.", c.Spec.ActiveVersion)
}
