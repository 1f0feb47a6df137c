package walks

import (
	"time"

	"teleport-update/internal/version"
)

// newSpec is the part of the configuration that is committed with a version.
type newSpec struct{ enabled, pinned bool }

// databasePlan is what a transaction does with the database.
type databasePlan struct {
	backUp  bool
	outdate bool // the backup of the version that is left would miss rows
	restore *Backup
}

// plan follows RFD 0169 §Downgrades: backward only with a valid backup of the
// database that the version had; forward again onto the very version that was
// left, with the database it had; forward to any other with the live one.
func (a *attempt) plan(to Release, c Command) (p databasePlan, refused bool) {
	back := a.Active.Version != "" && version.Compare(to.Version, a.Active.Version) < 0
	if a.Database == nil { // it was taken away, or there never was one
		return databasePlan{outdate: true}, a.Had && !c.Force && !c.SkipBackup
	}
	if c.SkipBackup && !back {
		return databasePlan{outdate: true}, false
	}
	p.backUp = true
	if a.Active.Version == "" || to.Version == a.Active.Version {
		return p, false
	}
	if t := a.tree(to); t.here() && a.valid(t.Backup) {
		p.restore = t.Backup
		return p, false
	}
	return p, back && !c.Force
}

func (a *attempt) valid(b *Backup) bool {
	if b == nil || b.Damaged {
		return false
	}
	age := a.Clock - b.Taken
	return age >= -skew && age <= maxAge
}

// install gets a version onto the disk and switches to it.
func (a *attempt) install(to Release, spec *newSpec, c Command, held *Release, rebuilt Build) int {
	if !a.makeWhole(to, c) || !a.obtain(to, rebuilt) {
		return 1
	}
	a.mark()
	if _, refused := a.plan(to, c); refused {
		return 1
	}
	a.commit(to, spec, c, held)
	return 0
}

// makeWhole fetches a damaged active version again before it is left, for an undoing goes back to it.
// Only who insists leaves a version that cannot be fetched.
func (a *attempt) makeWhole(to Release, c Command) bool {
	active := a.tree(a.Active)
	if a.Active == (Release{}) || a.Active == to || active.here() && active.Damage == Whole {
		return true
	}
	if !a.obtain(a.Active, Build{}) {
		return c.Now || c.Force
	}
	a.relink()
	a.mark()
	return true
}

// obtain fetches a version unless it is there, whole, and the build that is
// meant; then its agent has to run.
func (a *attempt) obtain(to Release, rebuilt Build) bool {
	tree := a.tree(to)
	here := tree.here()
	if f := a.failureOf(to); here && rebuilt == (Build{}) && f != nil && f.Build == tree.Build && !a.out.Shelves[to].Missing {
		rebuilt = a.out.Shelves[to].announces() // another build may have its name now
	}
	if !here || tree.Damage != Whole || rebuilt != (Build{}) && tree.Build != rebuilt {
		a.retain()
		a.mark()
		shelf := a.out.Shelves[to]
		if shelf.Missing || shelf.WrongSum {
			a.Last = &Last{to, "failed"}
			return false
		}
		next := Tree{Build: shelf.Build}
		if old := a.tree(to); old != nil {
			next.Backup, next.Qualified = old.Backup, old.Qualified
		} else {
			for r, t := range a.Trees {
				next.Qualified = next.Qualified || r.Version == to.Version && !t.Qualified
			}
		}
		a.Trees[to] = next
		a.mark()
	}
	build := a.Trees[to].Build
	if build.Runs {
		return true
	}
	if !here && to != a.Active { // else it was of use once, or is linked
		delete(a.Trees, to)
		a.mark()
	}
	a.Last = &Last{to, "failed"}
	a.fail(build)
	a.retain()
	return false
}

// fail counts a failure of a build: an hour of back-off, doubling.
func (a *attempt) fail(b Build) {
	f := Failed{Release: b.Release, Build: b, Attempts: 1}
	if old := a.failureOf(b.Release); old != nil && old.Build == b {
		f.Attempts = old.Attempts + 1
	}
	var before []Failed
	if a.Failed != nil {
		for _, old := range append([]Failed{*a.Failed}, a.FailedBefore...) {
			if old.Release != b.Release && len(before) < 4 {
				before = append(before, old)
			}
		}
	}
	a.FailedBefore = before
	f.Next = a.Clock + retryDelay(f.Attempts)
	a.Failed, a.Interrupted = &f, nil
}

func retryDelay(attempts int) time.Duration {
	if attempts < 10 {
		return min(lastRetry, time.Hour<<(attempts-1))
	}
	return lastRetry
}

// commit is the transaction itself. Cut off, it is undone or done, nothing between.
func (a *attempt) commit(to Release, spec *newSpec, c Command, held *Release) {
	p, _ := a.plan(to, c)
	a.undo(to)
	if tree := a.tree(a.Active); tree != nil {
		if p.backUp {
			tree.Backup = &Backup{Database: a.Database, Taken: a.Clock, Forced: a.Forced}
		} else if p.outdate {
			tree.Backup = nil
		}
		a.Trees[a.Active] = *tree
	}
	if p.restore != nil {
		a.Database, a.Forced = p.restore.Database, p.restore.Forced
	} else if c.Force || a.Active == (Release{}) {
		a.Forced = true
	}
	a.Forced = a.Forced && a.Database != nil && a.Database.Schema > a.Trees[to].Build.Schema()
	if a.Active == (Release{}) {
		// What a link replaces is back as soon as a version does not bring it.
		a.Before.Plain, a.Before.PlainUnit = a.Plain, a.PlainUnit
		if p.backUp {
			a.Before.Backup = &Backup{Database: a.Database, Taken: a.Clock}
		}
		a.PlainUnit = ""
	}
	stays := a.Active == to
	if !stays {
		a.Previous = a.Active
	}
	if a.Had, a.Noted = a.Database != nil, 0; a.Had {
		a.Noted = a.Database.Schema
	}
	a.Active = to
	if spec != nil {
		a.Proxy, a.Enabled, a.Pinned = true, spec.enabled, spec.pinned
	}
	a.Held, a.Failed, a.FailedBefore, a.Interrupted, a.Refused = held, a.previousFailed(), nil, nil, nil
	a.HeldLeft, a.HeldHeard = nil, stays && held != nil && a.HeldHeard
	if held != nil {
		left := a.Previous
		a.HeldLeft = &left
	}
	a.Last = &Last{to, "succeeded"}
	a.relink()
	a.mark()
	a.retain()
	a.done = append(a.done, a.clone())
}

// previousFailed is what is remembered of the version before if it failed: its first way back that was undone is not.
func (a *attempt) previousFailed() *Failed {
	failed := a.failureOf(a.Previous)
	if failed != nil && failed.Attempts == 1 && a.Last != nil && a.Last.Target.Version == a.Previous.Version && a.Last.Result != "succeeded" {
		return nil
	}
	return failed
}

// undo notes the state in which a transaction to a version ends that is cut off.
func (a *attempt) undo(to Release) {
	u := &attempt{Model: a.clone(), out: a.out}
	build := u.Trees[to].Build
	u.Last = &Last{to, "interrupted"}
	if u.Interrupted == nil || u.Interrupted.Release != to {
		u.Interrupted = &Interrupted{Release: to}
	} else {
		u.Interrupted = &Interrupted{Release: to, Count: u.Interrupted.Count}
	}
	if u.Interrupted.Count++; u.Interrupted.Count >= tooOftenIs {
		u.fail(build)
	}
	if u.Active == (Release{}) {
		delete(u.Trees, to)
	}
	a.undone = append(a.undone, u.clone())
	u.retain()
	a.undone = append(a.undone, u.Model)
}

// retain keeps the active and the previous version, and what failed last, without its
// backup, until a day after its next attempt is due; and removes all others.
func (a *attempt) retain() {
	if a.Active == (Release{}) {
		return // nobody can tell
	}
	a.Removing = false
	for r, t := range a.Trees {
		if a.mayHaveDatabase(r) {
			continue
		}
		same := func(k Release) bool {
			// What lacks its mark may be any edition that its name does not deny.
			return k == r || t.Damage == Unmarked && !t.Qualified && k.Version == r.Version
		}
		switch {
		case same(a.Active), same(a.Previous):
		case a.triesAgain(r) && t.Damage != Unmarked && t.Build == a.Failed.Build:
			t.Backup = nil
			a.Trees[r] = t
		default:
			delete(a.Trees, r)
		}
	}
}

// mayHaveDatabase reports whether the agent's database may be a newer version's: its schema is not the one that was noted
// with the active version, and who has changed it is not known.
func (a *attempt) mayHaveDatabase(r Release) bool {
	changed := a.Noted != 0 && a.Database != nil && a.Database.Schema != a.Noted
	failed := a.Failed != nil && a.Failed.Release == r
	return changed && r.Edition == a.Active.Edition && version.Compare(r.Version, a.Active.Version) > 0 && !failed
}

// triesAgain reports whether a release failed last and is kept for its next attempt.
func (a *attempt) triesAgain(r Release) bool {
	if a.Failed == nil || a.Failed.Release != r {
		return false
	}
	left := a.Failed.Next - a.Clock
	return left > -24*time.Hour && left <= lastRetry
}

// tidy is what a tick does that has nothing else to do: it removes versions that a
// cut left, going by their numbers alone.
func (a *attempt) tidy() {
	for r := range a.Trees {
		tried := a.Failed != nil && r.Version == a.Failed.Release.Version && a.triesAgain(a.Failed.Release)
		if r.Version != a.Active.Version && r.Version != a.Previous.Version && !tried {
			a.retain()
			return
		}
	}
}
