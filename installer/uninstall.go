package installer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/transaction"
	"teleport-update/internal/failure"
)

// Uninstall takes the updater off the host. The agent stays as it runs, as plain files; withAgent removes it, too. Its configuration and
// its data stay. The lines say what is left, and what to type next.
func (i *Installer) Uninstall(ctx context.Context, withAgent bool) (lines []string, err error) {
	now := i.surveyToChange()
	if _, err := now.Config(); errors.Is(err, fs.ErrPermission) {
		now.Close()
		return nil, failure.Unchanged("read the configuration: %w", err)
	}
	agent, err := now.Agent(ctx)
	now.Close()
	if err == nil {
		err = i.checkShell(withAgent)
	}
	if err != nil {
		return nil, err
	}
	next := i.next(ctx, agent.Sight)
	u, err := i.Machine.Uninstall(ctx, withAgent)
	if err != nil {
		return nil, err
	}
	return append(i.leftBy(u), next.lines(ctx, u)...), nil
}

// checkShell refuses to stop the agent that serves the shell of the command: the command would end in its middle.
func (i *Installer) checkShell(withAgent bool) error {
	if !withAgent || !i.Processes.SelfIn(i.Machine.Host.Paths.AgentUnit()) {
		return nil
	}
	return failure.Unchanged("this shell is served by the agent, and ends with it").
		To("run the command from another shell, or by `systemd-run --wait --pipe teleport-update uninstall --with-agent --yes`").Refused()
}

// UninstallPlan says, line by line, what Uninstall would do, or returns the error of a refusal.
func (i *Installer) UninstallPlan(ctx context.Context, withAgent bool) ([]string, error) {
	now := i.survey()
	defer now.Close()
	if err := i.checkShell(withAgent); err != nil {
		return nil, err
	}
	u, err := i.Machine.CheckUninstall(ctx, withAgent, now.Seen())
	if err != nil {
		return nil, err
	}
	version := u.Config.Spec.ActiveVersion
	line := fmt.Sprintf("Agent: version %s goes on as it runs, and stays as plain files in %s.", version, i.Machine.Host.Paths.LinkDir)
	switch {
	case version == "":
		line = "Agent: the updater manages none."
	case withAgent:
		line = fmt.Sprintf("Agent: version %s is stopped and removed.", version)
	}
	lines := []string{line}
	keeps, err := i.Machine.BackupsToKeep(ctx)
	if err != nil {
		return nil, err
	}
	if len(keeps) > 0 {
		lines = append(lines, fmt.Sprintf("Database: stays as it is. Backups with other tables are moved to %s: %s.",
			i.Machine.Host.Paths.KeptBackups(), strings.Join(keeps, ", ")))
	}
	places := i.Machine.Host.Paths.Versions()
	if programs := i.Machine.Host.Paths.Programs(); programs != places {
		places += " and " + programs
	}
	lines = append(lines,
		fmt.Sprintf("Removed: %s with all kept versions and the files that the first enable replaced, the updater's units.", places),
		"Kept: the agent's configuration and its data.")
	if !withAgent { // else the agent's processes end before
		lines = append(lines, executing(u)...)
	}
	return lines, nil
}

// leftBy says what an uninstall left on the host.
func (i *Installer) leftBy(u transaction.Uninstall) (lines []string) {
	if v := u.Config.Spec.ActiveVersion; v != "" && !u.WithAgent {
		lines = append(lines, fmt.Sprintf("The agent of version %s goes on as it runs, and stays as plain files that nothing updates.", v))
	}
	lines = append(lines, executing(u)...)
	if kept := i.Machine.Host.Paths.KeptBackups(); host.Exists(kept) {
		lines = append(lines, fmt.Sprintf("Backups of the agent's database are in %s.", kept))
	}
	return lines
}

// executing names the folders that stay because processes execute from them.
func executing(u transaction.Uninstall) []string {
	if len(u.Executing) == 0 {
		return nil
	}
	why := "a process executes from it"
	if u.Unseen != nil {
		why = fmt.Sprintf("a process may execute from it (%v)", u.Unseen)
	}
	then := "remove it once no process does"
	if u.AtBoot {
		then = "the next boot removes it"
	}
	return []string{fmt.Sprintf("Stays: %s, because %s; %s.", strings.Join(u.Executing, ", "), why, then)}
}
