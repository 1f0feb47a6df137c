package transaction

import (
	"slices"
	"testing"
)

// The process that was relieved goes on serving its sessions, in the unit that was never started
// anew, and is no reason to take the new version for one that is not healthy.
func TestAnUpdateLeavesTheProcessBeforeToItsSessions(t *testing.T) {
	m := upgrade(t, twoHolds)
	before, invocation := m.main, m.invocation
	if err := m.do(Update); err != nil {
		t.Error(err)
	}
	if !slices.Equal(m.draining, []*process{before}) || m.main.parent != before.pid || m.invocation != invocation {
		t.Errorf("%v drain, and %+v runs as invocation %d; want the one before to drain, its child to run, as %d", m.draining, m.main, m.invocation, invocation)
	}
	m.drained()
	m.endsOn("1.1.0")
}

// It ends with the version that relieved it: its database is about to be exchanged.
func TestAnUndoingStopsWhatDrains(t *testing.T) {
	m := upgrade(t, two(neverReady))
	drained := 0
	m.at("stop", func() error { drained += len(m.draining); return nil })
	if err := m.do(Update); err == nil || drained != 1 {
		t.Errorf("it ends with %v, and %d processes drained until then", err, drained)
	}
	if len(m.draining) > 0 {
		t.Errorf("%v still drain", m.draining)
	}
	m.endsOn("1.0.0")
}

// What systemd says of a reload that brought nothing: that it is done, and only of a unit that
// does not run that it makes no sense.
func TestAReloadOfTheModelThatBringsNothing(t *testing.T) {
	m := upgrade(t, two(dies))
	tree, _, err := m.Host.Store.Lookup(m.to)
	must(t, err)
	links, err := m.Host.PlanLinks(tree)
	must(t, err)
	must(t, m.Host.Place(tree, links))
	before := m.main
	if err := m.reloadUnit(); err != nil || m.main != before || len(m.draining) > 0 {
		t.Errorf("of a version that dies: %v, and %+v runs", err, m.main)
	}
	m.stopUnit()
	if m.reloadUnit() == nil {
		t.Error("a unit that does not run was reloaded")
	}
}
