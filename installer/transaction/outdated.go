package transaction

import (
	"fmt"

	"teleport-update/installer/state"
	"teleport-update/internal/durable"
)

// outdated reports whether the journal is of a transaction that is over: somebody took it
// away and put it back when another one had been committed. To act on it would give the
// agent a database of long ago. Only what updates.yaml says for certain counts: that it names
// a success, or a transaction that was undone, which is another one and later than the last
// thing that this one found there.
func (m *Machine) outdated(j *record) bool {
	c, err := m.Host.Paths.LoadConfig()
	last := c.Status.LastUpdate
	if err != nil || last == nil || j.Config == "" || last.Transaction == j.ID {
		return false
	}
	if last.Result != state.Succeeded && last.Transaction == "" {
		return false
	}
	if row, _ := phaseOf(j.Phase); row.succeeds && last.Target == j.To.Version {
		return false // its own
	}
	then, err := state.ParseConfig(j.Config)
	before := then.Status.LastUpdate
	return err == nil && (before == nil || last.Time.After(before.Time))
}

// setOutdatedAside keeps such a journal aside.
func (m *Machine) setOutdatedAside(j *record) error {
	to := fmt.Sprintf("%s.outdated-%s", j.path, m.Now().UTC().Format("20060102T150405Z"))
	m.Host.Log.Warn("the journal is of a transaction that another one followed; it is kept aside, and nothing is done by it",
		"to", j.To.String(), "begun", j.Started, "aside", to)
	return wrap(durable.Rename(j.path, to), "keep the outdated journal aside: %w")
}
