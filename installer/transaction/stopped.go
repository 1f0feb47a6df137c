package transaction

import (
	"context"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/regular"
)

// noting is the agent with a note of each stop in /run: which run of it was ended, how its unit was enabled, and which units go
// down with it. Where somebody removes the journal and the backup is believed no more, nothing else tells a stop of a
// transaction's from an administrator's.
type noting struct {
	Agent
	m *Machine
}

// Stop notes the stop before it begins, for a stop goes on without whoever asked for it. A note that cannot be
// written stops nothing: the journal is what an undoing goes by.
func (n noting) Stop(ctx context.Context, how manner) error {
	note := n.m.Host.Paths.Stopped()
	if sight, err := n.Look(ctx); note != "" && err == nil && sight.started() && sight.InvocationID != "" {
		if units, err := goesDown(ctx, n.Agent, sight.Ties); err == nil {
			n.m.addWentDown(ctx, n.Agent, units)
		}
		_ = state.WriteForRoot(note, []byte(sight.InvocationID+" "+sight.UnitFileState+"\n"))
	}
	return n.Agent.Stop(ctx, how)
}

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

// forgetStop removes the note of a stop, once what it is for is over.
func forgetStop(note string) error {
	if note == "" || host.Absent(note) {
		return nil
	}
	return durable.Remove(note)
}

// isClosed reports whether there is nothing to recover.
func isClosed(p state.Paths) bool { return host.Absent(p.Journal()) && nothingStopped(p) }

// nothingStopped reports whether no note tells of a stop, nor of units that went down with the agent.
func nothingStopped(p state.Paths) bool {
	return p.Stopped() == "" || host.Absent(p.Stopped()) && host.Absent(p.WentDown())
}

// The units that go down with the agent are noted when a transaction begins, and with each stop: a version that dies takes
// some of them down before anybody stops it, and the second stop of a transaction finds them down.

// wentDown are the units that a transaction of this boot took down with the agent, as far as nobody has started them again
// for the transaction. After a boot systemd has started what is enabled.
func (m *Machine) wentDown(ctx context.Context, agent looker) ([]string, error) {
	path := m.Host.Paths.WentDown()
	if path == "" || host.Absent(path) {
		return nil, nil
	}
	text, err := regular.Read(path, 64<<10, regular.NoLink|regular.Sealed)
	if err != nil {
		return nil, err
	}
	boot, units, _ := strings.Cut(string(text), "\n")
	if !sameBoot(boot, m.thisBoot(ctx, agent)) {
		return nil, nil
	}
	return strings.Fields(units), nil
}

// addWentDown adds units to those that went down, and keeps all that are noted.
func (m *Machine) addWentDown(ctx context.Context, agent looker, units []string) {
	path := m.Host.Paths.WentDown()
	if path == "" || len(units) == 0 {
		return
	}
	known, _ := m.wentDown(ctx, agent) // what cannot be read is written again
	lines := append([]string{m.thisBoot(ctx, agent)}, union(known, units)...)
	m.warn(state.WriteForRoot(path, []byte(strings.Join(lines, "\n")+"\n")),
		"units that depend on the agent may stay down if the journal is lost", "units", strings.Join(units, ", "))
}

// forgetWentDown removes the note of the units, once they were started or are to stay down.
func (m *Machine) forgetWentDown() error { return forgetStop(m.Host.Paths.WentDown()) }

func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, name := range b {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
