package transaction

import (
	"context"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
)

// noting is the agent with a note of each stop in /run: which run of it was ended, and how its unit was enabled. Where somebody
// removes the journal and the backup is believed no more, nothing else tells a stop of a transaction's from an administrator's.
type noting struct {
	Agent
	note string // a file; empty: nothing is written
}

// Stop notes the stop before it begins, for a stop goes on without whoever asked for it. A note that cannot be
// written stops nothing: the journal is what an undoing goes by.
func (n noting) Stop(ctx context.Context, how manner) error {
	if sight, err := n.Look(ctx); n.note != "" && err == nil && sight.started() && sight.InvocationID != "" {
		_ = state.WriteForRoot(n.note, []byte(sight.InvocationID+" "+sight.UnitFileState+"\n"))
	}
	return n.Agent.Stop(ctx, how)
}

// forgetStop removes the note of a stop, once what it is for is over.
func forgetStop(note string) error {
	if note == "" || host.Absent(note) {
		return nil
	}
	return durable.Remove(note)
}

// isClosed reports whether there is nothing to recover.
func isClosed(p state.Paths) bool {
	return host.Absent(p.Journal()) && (p.Stopped() == "" || host.Absent(p.Stopped()))
}
