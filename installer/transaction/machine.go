// Package transaction changes the version of the agent on one host, as a
// transaction.
//
// A transaction begins with a journal on stable storage and ends when the journal is gone. Between
// the two, whatever happens (an error, a kill, a power cut), the journal says how to put the old
// version back, with its links, its unit and its database; once the new version is proven, it says
// how to finish. A run that takes the update lock first closes a journal it finds (see Open).
//
// A version is proven when the agent was healthy for the health window. A version that is not
// proven is undone, and remembered, so that the timer does not try it again at once.
//
// A table says what a transaction may do in which phase, and what a recovery makes of it: see
// phases. A list says what it does, in which order, and what undoes that: see steps. Every path
// that decides that a transaction is over goes through one door, see undo.
//
// Rules come from RFD 0169; if this package differs, a comment at the place says why.
package transaction

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/versions"
)

// Machine holds what transactions work with. All fields are needed.
type Machine struct {
	Host *host.Host
	// Connect connects to the agent; see HostAgent for its errors.
	Connect func(context.Context) (Agent, error)
	// Command starts this program again: its path and global flags. A transaction runs in
	// a unit of its own that way.
	Command []string
	// Scheduled says that the timer started this run: it never waits for a lock, and
	// a lock that is taken is no failure.
	Scheduled bool
	Now       func() time.Time
	// Refetch puts a release on disk again that was there, and is damaged or gone. The configuration
	// says where from.
	Refetch func(context.Context, state.Config, state.Tree) error
	// UserPatience is how long to wait for a process that uses the agent's database before the agent
	// is stopped; see waitUnused.
	UserPatience time.Duration
	// BootID tells one boot of the host from another.
	BootID func() string
	// AskRescuer asks the program that the recovery at boot runs which journals it can act on: it is
	// host.Rescuer, except on a model of a host.
	AskRescuer func(context.Context) (program string, schema int, err error)
	// OpenByName finds a file that processes have open: by procfs, except on a model of a host.
	OpenByName func(pids []int, prefix string) string
}

// ScheduledVariable is set to 1 in the environment of a run that the timer
// started.
const ScheduledVariable = "TELEPORT_UPDATE_SCHEDULED"

// Scheduled reports whether the timer started this run. The file of variables that its unit reads may change the value
// of the variable, and cannot take it away.
func Scheduled() bool {
	_, set := os.LookupEnv(ScheduledVariable)
	return set
}

// wrap is fmt.Errorf with the error as its last operand, and nil for nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format, append(args, err)...)
}

// warn logs a non-fatal error. It does nothing if err is nil.
func (m *Machine) warn(err error, what string, attributes ...any) {
	warn(m.Host.Log, err, what, attributes...)
}

func warn(log *slog.Logger, err error, what string, attributes ...any) {
	if err != nil {
		log.Warn(what, append(attributes, "error", err)...)
	}
}

// Timestamp returns the time as records have it.
func (m *Machine) Timestamp() time.Time { return m.Now().UTC().Truncate(time.Second) }

// Active returns the tree that is linked according to updates.yaml; ok is false if there is no such
// tree, or it is not whole.
func (m *Machine) Active(c state.Config) (versions.Tree, bool, error) {
	if c.Spec.ActiveVersion == "" {
		return versions.Tree{}, false, nil
	}
	return m.Host.Store.Lookup(c.Active())
}

// TreeOf returns a tree in the form of records.
func TreeOf(t versions.Tree) state.Tree {
	return state.Tree{Release: t.Release, SHA256: t.SHA256, Dir: t.Dir, Programs: t.Programs}
}

// WaitLock takes a lock, and logs which holder it waits for. The timer's run does not wait.
func (m *Machine) WaitLock(ctx context.Context, path string) (unlock func(), err error) {
	patience := state.LockPatience
	if m.Scheduled {
		patience = 0
	}
	return state.LockNotify(ctx, path, patience, func(holder string) {
		m.Host.Log.Info("waiting for another updater", "holder", holder, "limit", patience)
	})
}

// LockUpdates takes the right to switch.
func (m *Machine) LockUpdates(ctx context.Context) (unlock func(), err error) {
	return m.WaitLock(ctx, m.Host.Paths.UpdateLock())
}

// StaysAsItIs says which version a host is on that was not changed.
func StaysAsItIs(c state.Config) failure.Aftermath {
	if c.Spec.ActiveVersion == "" {
		return ""
	}
	return failure.Aftermath("the agent stays on " + OrNone(c.Spec.ActiveVersion))
}

// OrNone completes "the agent is on …": before the first enable nobody but the
// host knows.
func OrNone(v string) string {
	if v == "" {
		return "what it ran before"
	}
	return "version " + v
}
