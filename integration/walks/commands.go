package walks

import (
	"slices"
	"time"

	"teleport-update/internal/version"
)

const (
	maxAge     = 720 * time.Hour
	skew       = 5 * time.Minute
	lastRetry  = 14 * 24 * time.Hour
	tooOftenIs = 3 // interruptions that count as a failure
)

// attempt is one run of a command on a model.
type attempt struct {
	*Model
	out *Outside
	// trail are the states that a cut could leave while no transaction is open.
	trail []*Model
	// undone and done are how transactions that were cut off can end.
	undone, done []*Model
}

// mark notes a state that a cut could leave.
func (a *attempt) mark() { a.trail = append(a.trail, a.clone()) }

// Run applies a command to the model and returns its exit code and the states
// that a cut in the middle of it could leave.
func (m *Model) Run(c Command, out *Outside) (end *Model, code int, cut *attempt) {
	a := &attempt{Model: m.clone(), out: out}
	a.mark()
	if c.opens() && c.Name != "recover" && !(c.Name == "update" && !a.Enabled) {
		a.Touched = false // what a cut left is cleared away by whoever works next
	}
	switch c.Name {
	case "enable":
		if code = a.enable(c); code == 0 || a.Active != (Release{}) {
			a.FirstFailed = false
		}
	case "update":
		code = a.update(c)
	case "rollback":
		code = a.rollback(c)
	case "pin":
		code = a.pin(c)
	case "unpin":
		a.Pinned = false
	case "disable":
		a.Enabled = false
	case "uninstall":
		code = a.uninstall(c)
	case "verify":
		code = a.verify()
	}
	a.mark()
	return a.Model, code, a
}

func (a *attempt) enable(c Command) int {
	if a.out.Down {
		return 1
	}
	a.recall()
	to, spec := a.out.Target, &newSpec{enabled: true, pinned: a.Pinned}
	switch {
	case a.Active == Release{}:
		if v := saysVersion(a.Plain["teleport"]); v != "" && version.Compare(v, to.Version) > 0 && !c.Force {
			return 1
		}
		a.FirstFailed = a.install(to, spec, c, nil, Build{}) != 0
		if a.FirstFailed {
			return 1
		}
		return 0
	case a.Active == to, a.Pinned, a.holds(to) && !c.Force:
		var held *Release
		if a.Active != to && !a.Pinned {
			a.hear(to)
			held = a.Held
		}
		if a.repair() {
			a.mark()
			a.Enabled, a.Proxy = true, true
			return 0
		}
		to = a.Active
		return a.install(to, spec, c, held, Build{})
	}
	if _, refused := a.plan(to, c); refused {
		return 1
	}
	return a.install(to, spec, c, nil, Build{})
}

func (a *attempt) update(c Command) int {
	if !a.Enabled {
		return 0
	}
	whole := a.repair()
	a.mark()
	refetch := func() int {
		if whole {
			a.tidy()
			return 0
		}
		if !a.obtain(a.Active, Build{}) {
			return 1
		}
		a.relink()
		return 0
	}
	if a.Pinned {
		return refetch()
	}
	if a.out.Down {
		if whole {
			return 1
		}
		return refetch()
	}
	a.recall()
	to, rebuilt := a.out.Target, Build{}
	if !c.Now {
		a.hear(to)
	}
	switch {
	case to == a.Active:
		return refetch()
	case c.Now:
	case !a.out.Auto, a.holds(to):
		return refetch()
	case a.backsOff(to):
		if shelf := a.out.Shelves[to]; shelf.Missing || shelf.announces() == a.failureOf(to).Build {
			return refetch()
		}
		rebuilt = a.out.Shelves[to].announces()
	}
	if _, refused := a.plan(to, c); refused {
		if c.Scheduled && a.Refused != nil && *a.Refused == to {
			a.tidy()
			return 0
		}
		a.Refused, a.Last = &to, &Last{to, "failed"}
		return 1
	}
	return a.install(to, nil, c, nil, rebuilt)
}

// announces is the build whose checksum the mirror serves.
func (s Shelf) announces() Build {
	if s.WrongSum {
		return Build{Number: -1}
	}
	return s.Build
}

// holds reports whether a rollback by hand holds a release back: the one that was left, and the one
// that find names first after that.
func (m *Model) holds(r Release) bool {
	return m.Held != nil && (!m.HeldHeard || r == *m.Held || r == deref(m.HeldLeft))
}

// hear takes in find's first answer since a rollback.
func (a *attempt) hear(wish Release) {
	if a.Held == nil || a.HeldHeard {
		return
	}
	a.HeldHeard = true
	if wish != a.Active {
		a.Held = &wish
	}
	a.mark()
}

// recall notes an answer of find.
func (a *attempt) recall() {
	answer := a.out.Target
	a.Recalled = &answer
	a.mark()
}

func (a *attempt) backsOff(r Release) bool {
	f := a.failureOf(r)
	if f == nil {
		return false
	}
	left := f.Next - a.Clock
	return left > 0 && left <= retryDelay(f.Attempts)+10*time.Minute // further off: a clock jumped
}

// failureOf is what is remembered of a release that failed.
func (a *attempt) failureOf(r Release) *Failed {
	if a.Failed == nil {
		return nil
	}
	for _, f := range append([]Failed{*a.Failed}, a.FailedBefore...) {
		if f.Release == r {
			return &f
		}
	}
	return nil
}

func (a *attempt) rollback(c Command) int {
	if a.Active == (Release{}) {
		return 1
	}
	to := Release{Version: c.Version, Edition: a.Active.Edition}
	switch {
	case c.Version == a.Active.Version:
		return 1
	case c.Version == a.Previous.Version && c.Version != "":
		to = a.Previous
	case c.Version != "":
	case a.Previous == Release{}, a.Held != nil:
		return 1
	default:
		to = a.Previous
	}
	tree := a.tree(to)
	if !tree.here() {
		return 1
	}
	if _, refused := a.plan(to, c); refused {
		return 1
	}
	if tree.Damage != Whole || !tree.Build.Runs {
		return 1
	}
	if !a.makeWhole(to, c) {
		return 1
	}
	held, left := a.Recalled, a.Active
	if held == nil || *held == to {
		held = &left
	}
	a.commit(to, nil, c, held)
	return 0
}

func (a *attempt) pin(c Command) int {
	switch c.Version {
	case "", a.Active.Version:
		if a.Active == (Release{}) {
			return 1
		}
		a.Pinned = true
		return 0
	}
	if a.Active == (Release{}) {
		return 1
	}
	to := Release{Version: c.Version, Edition: a.Active.Edition}
	if _, refused := a.plan(to, c); refused {
		return 1
	}
	return a.install(to, &newSpec{enabled: a.Enabled, pinned: true}, c, nil, Build{})
}

// verify changes nothing; its exit code tells whether it found something amiss.
func (a *attempt) verify() int {
	for _, t := range a.Trees {
		if t.Damage == Emptied || t.Damage == Altered {
			return 1
		}
	}
	if a.Active == (Release{}) {
		return 0
	}
	if !a.tree(a.Active).here() || len(a.Missing) > 0 || a.UnitEdited {
		return 1
	}
	return 0
}

// repair is the look at the active version that begins most commands: links and
// unit are put right; a version that is damaged is for the caller to fetch.
func (a *attempt) repair() (whole bool) {
	switch t := a.tree(a.Active); {
	case !t.here(), t.Damage == Emptied || t.Damage == Altered:
		return false
	}
	a.relink()
	return true
}

// relink puts the links right, the agent's last, and then the unit; a cut may come between any two.
func (a *attempt) relink() {
	order := slices.Sorted(slices.Values(a.Missing))
	if n := slices.Index(order, "teleport"); n >= 0 {
		order = append(slices.Delete(order, n, n+1), "teleport")
	}
	for n := range order {
		if a.Missing = order[n+1:]; len(a.Missing) > 0 || a.UnitEdited {
			a.mark()
		}
	}
	a.Missing, a.UnitEdited = nil, false
}
