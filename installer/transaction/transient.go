package transaction

import (
	"context"
	"errors"
	"fmt"
	"os"

	"teleport-update/installer/host"
	"teleport-update/internal/procfs"
	"teleport-update/systemd"
)

// ExitError is the exit code of a transaction, or of its recovery, that ran in a unit of its own
// and explained itself.
type ExitError struct{ Code int }

func (e *ExitError) Error() string {
	return fmt.Sprintf("the transaction ended with exit code %d", e.Code)
}

// recoverTransient closes an open transaction from a unit of its own if this process cannot: a
// process in a shell that the agent serves is in the agent's control group. To undo a transaction
// is to stop the agent. Then systemd would wait for us, who wait for systemd, kill us in the end,
// and nobody would start the agent before the timer's next run.
//
// The caller must not hold the update lock, and still has to look whether there
// is a journal: everywhere else this does nothing.
func (m *Machine) recoverTransient(ctx context.Context) error {
	if host.Absent(m.Host.Paths.Journal()) || !procfs.Host().SelfIn(m.Host.Paths.AgentUnit()) {
		return nil
	}
	agent, err := m.Agent(ctx)
	if err != nil {
		return err
	}
	defer agent.Close()
	_, err = m.runTransient(ctx, agent, "Close the open transaction of the Teleport agent", nil, "recover")
	return err
}

// removeEnded removes the units of transactions that failed and that nobody followed to their end.
func (m *Machine) removeEnded(ctx context.Context) {
	if !systemd.TransientsLeft() {
		return
	}
	agent, err := m.Connect(ctx)
	if err != nil {
		return // a caller that needs systemd reports that
	}
	defer agent.Close()
	agent.RemoveEnded(ctx)
}

// runTransient runs a command of this program in a transient unit and follows it; ran is false if
// there are no units.
func (m *Machine) runTransient(ctx context.Context, agent runner, description string, stdin *os.File, command string) (ran bool,
	err error) {
	code, ran, err := agent.RunTransient(ctx, systemd.Transient{
		Description: description,
		Argv:        append(append([]string{}, m.Command...), command),
		RuntimeMax:  systemd.SwitchLimit,
		StopPost:    append(append([]string{}, m.Command...), "recover"), // see RecoverKilled
		Env:         m.handedOn(),
		Stdin:       stdin,
		Stdout:      os.Stdout,
		Stderr:      os.Stderr,
	})
	goesOn, unwatched := errors.AsType[*systemd.GoesOnError](err)
	switch {
	case unwatched:
		return true, fmt.Errorf("%s: this goes on in %s, without the command that began it (%w): "+
			"see `teleport-update status` and `journalctl -t teleport-update _UID=0`",
			description, goesOn.Unit, goesOn.Err)
	case err != nil && code > 128 && host.Absent(m.Host.Paths.Journal()):
		return true, fmt.Errorf("%s: this was cut off: %w; what was open is closed, see `teleport-update status`", description, err)
	case err != nil && code > 128:
		return true, fmt.Errorf("%s: this was cut off: %w; the timer's next run closes it, and so does `teleport-update update`", description,
			err)
	case err != nil:
		return true, fmt.Errorf("%s, in a unit of its own: %w; see `teleport-update status` and `journalctl -t teleport-update _UID=0`",
			description, err)
	case code != 0:
		return true, &ExitError{Code: code}
	}
	return ran, nil
}

// handedOn returns the environment of that unit: whether the timer started all this, whether the
// journal reads its stderr, which is ours, already, and what the terminal can show.
func (m *Machine) handedOn() []string {
	var env []string
	if m.Scheduled {
		env = append(env, ScheduledVariable+"=1")
	}
	for _, name := range []string{"JOURNAL_STREAM", "TERM", "NO_COLOR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
