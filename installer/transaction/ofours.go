package transaction

import (
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/regular"
)

// What the notes in /run tell of a stop of ours.

// readStop reads the note of a stop: which run of the agent was ended, and how its unit was enabled. Without a note no run was.
func readStop(note string) (ended, enabled string, err error) {
	if host.Absent(note) {
		return "", "", nil
	}
	run, err := regular.Read(note, 256, regular.NoLink|regular.Sealed)
	ended, enabled, ofToday := strings.Cut(strings.TrimSpace(string(run)), " ")
	if !ofToday {
		enabled = "enabled" // an older program wrote no more
	}
	return ended, enabled, err
}

// isStopOfOurs reports whether an agent is down by the stop of which there is a note: it was not started since.
func isStopOfOurs(m *Machine, sight Sight) bool {
	ended, _, err := readStop(m.Host.Paths.Stopped())
	return err == nil && ended != "" && ended == sight.InvocationID && !sight.started()
}

// IsClosed reports whether nothing tells of something to recover: no journal, and no note.
func IsClosed(p state.Paths) bool { return host.Absent(p.Journal()) && nothingStopped(p) }

// nothingStopped reports whether no note tells of a stop, nor of units that went down with the agent.
func nothingStopped(p state.Paths) bool {
	return p.Stopped() == "" || host.Absent(p.Stopped()) && host.Absent(p.WentDown())
}
