package walks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Other is what somebody else does to a host while a command runs. It is undone
// after that.
type Other string

// action is one of them.
type action struct {
	name Other
	// do does it, and returns what undoes it; nil if there is nothing to do it to.
	do func(*walk) (undo func() error, err error)
	// with says which commands it may meet: with others its undoing would itself do harm.
	with func(Command) bool
	// open: it needs a transaction that was cut off; closed: it needs that there is none, for
	// nobody knows which database such a one has kept.
	open, closed bool
	// held: the updater waits for a while until it is over.
	held bool
	// hides: the active version is not known for one.
	hides bool
	// blames: a transaction that it stops counts as a failure of the version.
	blames bool
	// seen is what a command may take the host for as long as it is in force, and back what
	// undoing it makes of a state that came of that.
	seen func(*walk, *Model)
	back func(w *walk, was, end *Model)
}

// actions are all that others do. What a family of them has in common is in its
// function.
var actions = slices.Concat(inTheWay(), withTheDatabase(), withTheFolder(), withFiles(), withMarkers(), withTrees(), withTheData())

// Others are the names of all.
func Others() (names []Other) {
	for _, a := range actions {
		names = append(names, a.name)
	}
	return names
}

// suitable are those that may meet a command.
func suitable(c Command, open bool) (names []Other) {
	for _, a := range actions {
		if a.open == open && (a.with == nil || a.with(c)) {
			names = append(names, a.name)
		}
	}
	return names
}

func actionOf(o Other) action {
	return actions[slices.IndexFunc(actions, func(a action) bool { return a.name == o })]
}

// patience is how long a program goes on using the database while the updater waits for
// that. That one which never ends is told of and left alone, booted hosts show.
const patience = 2 * time.Second

// meanwhile runs a command while somebody else acts, and undoes that. What the command
// makes of it is its own affair, but it ends as a command that was cut off may end, or
// as one that failed: in no third state.
func (w *walk) meanwhile(ctx context.Context, c Command, o Other) (string, error) {
	a := actionOf(o)
	if a.open && !w.open || a.closed && w.open || a.with != nil && !a.with(c) {
		w.note = " (not then)"
		return w.command(ctx, c, 0)
	}
	undo, err := a.do(w)
	if err != nil {
		return "", fmt.Errorf("%s: %w", o, err)
	}
	if undo == nil {
		w.note = " (there is nothing to do it to)"
		return w.command(ctx, c, 0)
	}
	before, err := w.snapshot()
	if err != nil {
		return "", err
	}
	var once sync.Once
	undone := undo
	undo = func() (err error) {
		once.Do(func() { err = undone() })
		return err
	}
	if a.held {
		defer time.AfterFunc(patience, func() { _ = undo() }).Stop()
	}
	r, err := w.run(ctx, c.Scheduled, 0, c.args()...)
	if err != nil {
		return "", err
	}
	w.tally.Commands++
	w.tally.done(o)
	w.note += fmt.Sprintf(" (exit code %d)", r.code)
	if !slices.Contains([]int{0, 1, 4}, r.code) {
		return fmt.Sprintf("exit code %d\n%s%s", r.code, r.stdout, r.stderr), nil
	}
	what, err := w.leftAlone(c, o, r, before)
	if err := undo(); err != nil {
		return fmt.Sprintf("%v\n%s", err, r.stderr), nil
	}
	if what != "" || err != nil {
		return what + "\n" + r.stderr, err
	}
	phase, err := w.phase()
	if err != nil {
		return "", fmt.Errorf("read the journal: %w", err)
	}
	next := w.mayBe(a, c, phase)
	if phase != "" && !w.open {
		w.beforeCut = w.may
	}
	if w.open = phase != ""; w.open {
		w.note += ", " + phase
		w.may = next
		return "", nil
	}
	// One more run has passed before the host is looked at.
	if r, err := w.run(ctx, false, 0, "recover"); err != nil || r.code != 0 {
		return fmt.Sprintf("recover: exit code %d\n%s", r.code, r.stderr), err
	}
	what, err = w.narrow(ctx, next)
	if what != "" {
		what += "\n" + r.stderr
	}
	return what, err
}

// mayBe are the states that a host can be in after a command which somebody else met,
// and the undoing of that.
func (w *walk) mayBe(by action, c Command, phase string) (next []*Model) {
	from := w.may
	if by.open && phase == "" {
		from = slices.Concat(from, w.unnoted())
	}
	for _, m := range from {
		seen := []*Model{m}
		if by.seen != nil {
			one := m.clone()
			by.seen(w, one)
			seen = append(seen, one)
		}
		for _, one := range seen {
			end, _, a := one.Run(c, &w.out)
			ends := slices.Concat(a.undone, a.done)
			if phase == "" {
				ends = slices.Concat(ends, a.failures(c), []*Model{end})
			}
			if w.open {
				ends = append(ends, one.clone()) // the transaction that was open before
			}
			for _, e := range ends {
				next = append(next, w.afterAll(by, m, e)...)
			}
		}
	}
	for _, m := range next {
		m.Touched, m.Removing = true, true
	}
	return unlike(next)
}

// afterAll are the states that the end of a command can have become, of a host that was in
// the state began: by what the action did, and by the undoing of that.
func (w *walk) afterAll(by action, began, end *Model) []*Model {
	next := []*Model{end}
	if by.blames {
		blamed := &attempt{Model: end.clone(), out: &w.out}
		blamed.fail(w.out.Shelves[w.out.Target].Build)
		again := blamed.clone()
		again.Last = &Last{w.out.Target, "failed"}
		next = append(next, blamed.Model, again)
	}
	if by.back == nil {
		return next
	}
	end = end.clone()
	by.back(w, began, end)
	next = append(next, end)
	if earlier := w.earlierBackup(began); by.closed && earlier != nil {
		next = append(next, end.withBackup(began.Active, earlier))
	}
	if by.hides {
		next = append(next, end.withBackup(began.Active, nil))
	}
	return next
}

// withBackup has the version that was left have another, or none: what could not be told
// for a version has its database kept with what was there before all versions.
func (m *Model) withBackup(r Release, b *Backup) *Model {
	c := m.clone()
	if t := c.tree(r); t != nil && r != c.Active {
		t.Backup = b
		c.Trees[r] = *t
	}
	return c
}

// earlierBackup is what the active version has from a transaction that was undone; a version that
// is left without a database keeps it.
func (w *walk) earlierBackup(m *Model) *Backup {
	dir := filepath.Join(w.folder(m.Active), "backup")
	if _, err := os.Stat(filepath.Join(dir, "backup.yaml")); err != nil || m.Database == nil {
		return nil
	}
	got, err := w.read(filepath.Join(dir, "sqlite.db"))
	if err != nil || got == nil || len(got.Rows) > len(m.Database.Rows) || !slices.Equal(got.Rows, m.Database.Rows[:len(got.Rows)]) {
		return nil // nobody wrote that
	}
	return &Backup{Database: got}
}

// unnoted are the states of a transaction that was cut off and whose journal cannot be read:
// nothing counts it, and status asks to look at the agent.
func (w *walk) unnoted() (all []*Model) {
	add := func(m *Model) {
		closed, linked := m.clone(), m.clone()
		closed.Last = &Last{m.Active, "interrupted"}
		// What was amiss before may have been put right by then.
		linked.Missing, linked.UnitEdited, linked.Last = nil, false, closed.Last
		all = append(all, m, closed, linked)
	}
	for _, is := range w.may {
		add(is.clone())
		for _, m := range w.beforeCut {
			kept := m.clone() // an uninstall, which is forgotten
			kept.Enabled = false
			add(kept)
			u := m.clone()
			u.Database, u.Trees, u.Active, u.Previous, u.Recalled = is.Database, is.Trees, is.Active, is.Previous, is.Recalled
			add(u)
		}
	}
	return all
}

// mayTouch says what a command that fails may change besides while somebody else is at
// work, and why.
var mayTouch = []struct{ name, why string }{
	{"/data/proc/", "who connects to a database of others makes and removes what lies beside it"},
	{"/data/versions/original/", "what is in the way is copied before it is known whether it has to go"},
	{"/data/versions/update.lock", "the first run of all makes it"},
}

// leftAlone is the demand on a command that fails while somebody else is at work.
func (w *walk) leftAlone(c Command, o Other, r result, before map[string]string) (string, error) {
	was := w.may[0]
	open, err := os.ReadFile(w.journal())
	if r.code == 0 || c.Name == "uninstall" || w.open || err == nil && len(open) > 0 ||
		was.Touched || len(was.Missing) > 0 || was.UnitEdited || slices.Contains(repaired(), o) {
		return "", nil
	}
	what, err := w.untouched(before)
	var lines []string
	for line := range strings.Lines(what) {
		if !slices.ContainsFunc(mayTouch, func(m struct{ name, why string }) bool { return strings.Contains(line, m.name) }) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ""), err
}

// repaired are actions whose damage a command puts right before it does anything else.
func repaired() (names []Other) {
	for _, a := range inTheWay() {
		names = append(names, a.name)
	}
	return names
}

// failures are the states that a command may leave which failed on the way, with and
// without a note of that.
func (a *attempt) failures(c Command) (all []*Model) {
	targets := []Release{a.out.Target, a.Active, a.Previous, {Version: c.Version, Edition: a.Active.Edition}}
	for _, m := range a.trail {
		all = append(all, m)
		for _, to := range targets {
			if to.Version == "" {
				continue
			}
			noted := m.clone()
			noted.Last = &Last{to, "failed"}
			refused := noted.clone()
			refused.Refused = &to
			all = append(all, noted, refused)
		}
	}
	return all
}

// elsewhere is where somebody keeps what was taken away.
func (w *walk) elsewhere(name string) string { return filepath.Join(w.scratch(), "away-"+name) }
