package transaction

import (
	"context"
	"os"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/regular"
)

// noting is the agent with a note of each stop in /run: which run of it was ended. Where somebody removes the journal and
// the backup is believed no more, nothing else tells a stop of a transaction's from an administrator's.
type noting struct {
	Agent
	note string // a file; empty: nothing is written
}

// Stop notes the stop before it begins, for a stop goes on without whoever asked for it. A note that cannot be
// written stops nothing: the journal is what an undoing goes by.
func (n noting) Stop(ctx context.Context, how manner) error {
	if sight, err := n.Look(ctx); n.note != "" && err == nil && sight.started() && sight.InvocationID != "" {
		_ = state.WriteForRoot(n.note, []byte(sight.InvocationID+"\n"))
	}
	return n.Agent.Stop(ctx, how)
}

// startStopped starts an agent that a transaction has stopped of which nothing else is left. An agent that was started
// since, or is not enabled at boot, is as somebody wants it.
func (m *Machine) startStopped(ctx context.Context) error {
	note := m.Host.Paths.Stopped()
	if note == "" || host.Absent(note) {
		return nil
	}
	run, err := regular.Read(note, 256, regular.NoLink|regular.Sealed)
	if err != nil {
		m.warn(err, "whether a transaction stopped the agent is not known")
		return nil
	}
	if err := m.startAgain(ctx, func(s Sight) bool { return s.InvocationID == strings.TrimSpace(string(run)) }); err != nil {
		return err
	}
	return m.forgetStop()
}

// forgetStop removes the note of a stop, once what it is for is over.
func (m *Machine) forgetStop() error {
	note := m.Host.Paths.Stopped()
	if note == "" {
		return nil
	}
	if err := os.Remove(note); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// isClosed reports whether there is nothing to recover.
func (m *Machine) isClosed() bool {
	note := m.Host.Paths.Stopped()
	return host.Absent(m.Host.Paths.Journal()) && (note == "" || host.Absent(note))
}
