package transaction

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/durable"
	"teleport-update/internal/failure"
	"teleport-update/internal/version"
	"teleport-update/versions"
)

// outdated reports whether the journal is of a transaction that is over: somebody took it
// away and put it back when another one had been committed. To act on it would give the
// agent a database of long ago. Only what updates.yaml says for certain counts: that it names
// a success, or a transaction that was undone, which is another one and later than the last
// thing that this one found there.
func (m *Machine) outdated(j *openJournal) bool {
	c, err := m.FreshConfig()
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
func (m *Machine) setOutdatedAside(j *openJournal) error {
	to := fmt.Sprintf("%s.outdated-%s", j.path, m.Now().UTC().Format("20060102T150405Z"))
	m.Host.Log.Warn("ignoring an old journal: a later transaction has finished",
		"to", j.To.String(), "begun", j.Started, "aside", to)
	return wrap(durable.Rename(j.path, to), "keep the outdated journal aside: %w")
}

// leftBehind reports whether the host has left both versions of the journal: the agent's link and
// its unit are those of a third one. Somebody put back a copy of the records that was made in the
// middle of a transaction. Its database is of then, and nothing is moved on its word. A time says
// nothing, for copies keep or lose times; a link alone says nothing, either, for whoever put that in the
// way of an open transaction has not put a unit there.
func (m *Machine) leftBehind(j *openJournal) bool {
	if j.Uninstall != nil || host.AgentLinkIsBack(j.Links) {
		return false
	}
	program, err := filepath.EvalSymlinks(filepath.Join(m.Host.Paths.LinkDir, host.AgentName))
	if err != nil {
		return false // it leads nowhere
	}
	known := []string{j.To.ProgramsDir()}
	if j.From != nil {
		known = append(known, j.From.ProgramsDir())
	}
	for _, dir := range known {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if strings.HasPrefix(program, dir+"/") {
			return false
		}
	}
	release, ok := m.Host.Store.ReleaseOf(program)
	return ok && m.hasUnitOf(versions.Tree{Release: release, Programs: filepath.Dir(filepath.Dir(program))})
}

// setCopyAside keeps such a journal aside. The transaction has an outcome from then on: nobody tells it
// again by its backup.
func (m *Machine) setCopyAside(j *openJournal) error {
	c, err := m.FreshConfig()
	if err != nil {
		return failure.Unchanged("%w", err)
	}
	c.Status.LastUpdate = &state.LastUpdate{
		Time: m.Timestamp(), Target: j.To.Version, TargetEdition: j.To.Edition, Result: state.Interrupt, Transaction: j.ID,
		Error: "a copy of the records of this transaction was put back: links and unit are of a version that it has nothing to do with",
	}
	if err := c.Save(m.Host.Paths.Config()); err != nil {
		return err
	}
	return m.setOutdatedAside(j)
}

// hasUnitOf reports whether the agent's unit is that of a tree, whose record may be gone, and with it
// its edition.
func (m *Machine) hasUnitOf(tree versions.Tree) bool {
	now, err := host.ReadUnit(m.Host.Paths.Unit())
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]version.Edition{tree.Release.Edition, version.FIPS}, func(e version.Edition) bool {
		tree.Release.Edition = e
		unit, err := m.Host.UnitOf(tree)
		return err == nil && host.SameUnit(now, unit)
	})
}
