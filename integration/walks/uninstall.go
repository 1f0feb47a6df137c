package walks

import (
	"cmp"
	"maps"
	"slices"
)

func (a *attempt) uninstall(c Command) int {
	if c.Keep && a.Active != (Release{}) {
		if t := a.tree(a.Active); !t.here() || t.Damage != Whole {
			return 1 // there is nothing to keep, or it may not start as plain files
		}
	}
	if a.Active != (Release{}) && !c.Keep {
		database, refused := a.leave()
		if refused {
			return 1
		}
		a.Database = database
	}
	a.Enabled = false
	a.mark()
	plain, unit := a.Before.Plain, a.Before.PlainUnit
	switch {
	case a.Active == Release{}:
		plain, unit = a.Plain, a.PlainUnit
	case c.Keep:
		tree := a.tree(a.Active)
		plain, unit = maps.Clone(a.Plain), a.Active.Version
		for _, name := range tree.Build.Files() {
			plain[name] = tree.text(name) // links that somebody removed, too
		}
		if a.UnitEdited {
			unit = edited
		}
	}
	*a.Model = Model{Clock: a.Clock, Database: a.Database, Plain: plain, PlainUnit: unit, Trees: map[Release]Tree{}}
	a.done = append(a.done, a.clone())
	return 0
}

// leave is the database that an uninstall gives to the agent of before: today's, if it has the tables of then, or the
// newest backup with these. The program of that agent is not there, so that nobody knows whether it can read others.
func (a *attempt) leave() (d *Database, refused bool) {
	if a.Before.PlainUnit == "" || a.Database == nil {
		return a.Database, false // no agent of before comes back, or there is nothing to read
	}
	first := a.Before.Backup
	if first == nil {
		return nil, true
	}
	if first.Database.Schema == a.Database.Schema {
		return a.Database, false
	}
	readable := []*Backup{first}
	for _, t := range a.Trees {
		if t.Backup != nil && t.Backup.Database != nil && t.Backup.Database.Schema == first.Database.Schema {
			readable = append(readable, t.Backup)
		}
	}
	slices.SortStableFunc(readable, func(b, c *Backup) int { return cmp.Compare(c.Taken, b.Taken) })
	for _, b := range readable {
		if a.valid(b) {
			return b.Database, false
		}
	}
	return nil, true
}
