package walks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teleport-update/installer/view"
)

// Violation is where a host differs from every state that it may be in.
type Violation struct {
	At   int // index of the step
	What string
}

// Tally counts what walks did.
type Tally struct {
	Commands, Succeeded, Kills, Others, Transactions, Restores int
	Done                                                       map[Other]int // how often somebody else did it
}

func (t *Tally) done(o Other) {
	t.Others++
	if t.Done == nil {
		t.Done = map[Other]int{}
	}
	t.Done[o]++
}

// Walk replays steps on a fresh host in dir and returns the first violation, nil
// if there is none, and a line for each step.
func Walk(ctx context.Context, dir, updater, agentBefore string, steps []Step, tally *Tally) (v *Violation, log []string, err error) {
	h, err := newMachine(dir, updater, agentBefore)
	if err != nil {
		return nil, nil, err
	}
	defer h.Close()
	unmount, err := h.mountData()
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, unmount()) }()
	if err := os.WriteFile(h.agentConfig(), []byte("teleport:\n  data_dir: "+h.data()+"\n"), 0o600); err != nil {
		return nil, nil, err
	}
	first := &Model{Trees: map[Release]Tree{}, Plain: map[string]string{}, PlainUnit: agentBefore}
	if agentBefore != "" {
		first.Plain = filesBefore(agentBefore)
	}
	w := &walk{machine: h, may: []*Model{first}, tally: tally, out: quiet()}
	w.set(w.out)
	for n, s := range steps {
		what, err := w.step(ctx, s)
		log = append(log, fmt.Sprintf("%2d. %v%s", n+1, s, w.note))
		w.note = ""
		if err != nil || what != "" {
			return &Violation{At: n, What: what}, log, err
		}
	}
	if w.open {
		if what, err := w.command(ctx, Command{Name: "recover"}, 0); err != nil || what != "" {
			return &Violation{At: len(steps), What: "recover at the end: " + what}, log, err
		}
	}
	what, err := w.converge(ctx)
	if err != nil || what != "" {
		return &Violation{At: len(steps), What: "at the end: " + what}, log, err
	}
	return nil, log, nil
}

// walk is a host with the states that it may be in.
type walk struct {
	*machine
	tally *Tally
	out   Outside
	may   []*Model
	open  bool   // a transaction was cut off, and nothing has closed it yet
	note  string // what became of the step, for the log
	// What somebody who took files of the database away left of it, for a while and at last.
	during, left *Database
	beforeCut    []*Model // the states before the command that was cut off
	at           string   // the folder of the version that somebody does something to
}

// step does one step and says what is wrong, if anything.
func (w *walk) step(ctx context.Context, s Step) (string, error) {
	if s.Command != nil {
		if w.open && !s.Command.opens() {
			if what, err := w.command(ctx, Command{Name: "recover"}, 0); err != nil || what != "" {
				return what, err
			}
		}
		if s.Other != "" {
			return w.meanwhile(ctx, *s.Command, s.Other)
		}
		return w.command(ctx, *s.Command, s.KillAt)
	}
	if w.open && s.Outside == nil {
		if what, err := w.command(ctx, Command{Name: "recover"}, 0); err != nil || what != "" {
			return what, err
		}
	}
	switch {
	case s.Outside != nil:
		w.out = *s.Outside
		w.set(w.out)
		return "", nil
	case s.Agent != nil:
		return w.runAgent(*s.Agent)
	case s.Pass != 0:
		for _, m := range w.may {
			m.Clock += s.Pass
		}
		return "", w.pass(s.Pass)
	}
	return "", w.befall(s)
}

// befall does to host and model what a person or a bad disk does.
func (w *walk) befall(s Step) error {
	m := w.may[0]
	r := m.Active
	if s.Before {
		r = m.Previous
	}
	tree := m.tree(r)
	switch {
	case s.Damage != Whole && tree != nil && tree.Damage == Whole:
		tree.Damage = s.Damage
		w.each(func(m *Model) { m.Trees[r] = *tree })
		return w.damage(r, *tree)
	case s.Unlink != "" && m.Active != Release{} && !slices.Contains(m.Missing, s.Unlink):
		w.each(func(m *Model) { m.Missing = append(m.Missing, s.Unlink) })
		return os.Remove(filepath.Join(w.links(), s.Unlink))
	case s.Unit && m.Active != Release{}:
		w.each(func(m *Model) { m.UnitEdited = true })
		return os.WriteFile(w.unit(), []byte(edited), 0o644)
	case s.Spoil != "":
		r = m.Previous
		if tree = m.tree(r); tree == nil || r == m.Active || tree.Backup == nil || tree.Backup.Damaged {
			break
		}
		spoilt := *tree.Backup
		if spoilt.Damaged = true; s.Spoil == "unfinished" {
			tree.Backup = nil
		} else {
			tree.Backup = &spoilt
		}
		w.each(func(m *Model) { m.Trees[r] = *tree })
		return w.spoil(r, s.Spoil)
	}
	w.note = " (there is none)"
	return nil
}

func (w *walk) each(do func(*Model)) {
	for _, m := range w.may {
		do(m)
	}
}

// runAgent has the active version run for a while. It must be able to open its
// database, unless a person insisted on a version that cannot.
func (w *walk) runAgent(a Agent) (string, error) {
	m := w.may[0]
	schema := 1
	if t := m.tree(m.Active); t != nil {
		schema = t.Build.Schema()
	} else if v := saysVersion(m.Plain["teleport"]); v != "" {
		schema = Build{Release: Release{Version: v}}.Schema()
	}
	started, rows, err := w.agent(a, schema)
	if err != nil {
		return "", err
	}
	if !started {
		w.note = " (it cannot open its database)"
		if m.Forced || m.Active == (Release{}) {
			return "", nil
		}
		return fmt.Sprintf("version %s cannot open its database, which has schema %d", m.Active, m.Database.Schema), nil
	}
	w.each(func(m *Model) {
		next := Database{Schema: schema, Rows: rows}
		if m.Database != nil {
			next.Rows = slices.Concat(m.Database.Rows, rows)
		}
		m.Database = &next
	})
	return "", nil
}

// command runs the updater and compares the host with what may have become of
// it.
func (w *walk) command(ctx context.Context, c Command, killAt int) (string, error) {
	before, err := w.snapshot()
	if err != nil {
		return "", err
	}
	r, err := w.run(ctx, c.Scheduled, killAt, c.args()...)
	if err != nil {
		return "", err
	}
	w.tally.Commands++
	if r.killed != "" {
		w.tally.Kills++
		w.note += fmt.Sprintf(" (%s)", r.killed)
		return w.cut(ctx, c, r)
	}
	if r.code == 0 {
		w.tally.Succeeded++
	}
	w.note += fmt.Sprintf(" (exit code %d)", r.code)

	var ends []*Model
	var codes []int
	for _, m := range w.may {
		end, code, _ := m.Run(c, &w.out)
		if code == r.code {
			ends = append(ends, end)
		}
		codes = append(codes, code)
	}
	if len(ends) == 0 {
		return fmt.Sprintf("exit code %d; want %v\n%s%s", r.code, codes, r.stdout, r.stderr), nil
	}
	was := w.may[0]
	repaired := w.open || was.Touched || len(was.Missing) > 0 || was.UnitEdited
	w.open = false
	if what, err := w.narrow(ctx, ends); err != nil || what != "" {
		return what + "\n" + r.stderr, err
	}
	w.count(was, w.may[0])
	if r.code != 0 && !repaired && c.Name != "uninstall" { // which disables updates first
		if what, err := w.untouched(before); err != nil || what != "" {
			return what + "\n" + r.stderr, err
		}
	}
	return w.wayBack(ctx, c, was)
}

func (w *walk) count(before, after *Model) {
	if before.Active != after.Active {
		w.tally.Transactions++
		if t := before.tree(after.Active); t != nil && t.Backup != nil && after.Database == t.Backup.Database {
			w.tally.Restores++
		}
	}
}

// cut follows a kill.
func (w *walk) cut(ctx context.Context, c Command, r result) (string, error) {
	phase, err := w.phase()
	if err != nil {
		return "", fmt.Errorf("read the journal: %w", err)
	}
	var next []*Model
	if phase != "" && w.open {
		// It may be the one that was open before.
		next = slices.Clone(w.may)
	}
	for _, m := range w.may {
		_, _, a := m.Run(c, &w.out)
		switch {
		case phase == "":
			next = append(next, a.trail...)
		case phase == "proven", phase == "uninstalling":
			next = append(next, a.done...)
		default:
			next = append(next, a.undone...)
			for _, m := range a.undone { // the agent's link leads back to the active version, also if it was missing
				if n := slices.Index(m.Missing, "teleport"); n >= 0 {
					linked := m.clone()
					linked.Missing = slices.Delete(linked.Missing, n, n+1)
					next = append(next, linked)
				}
			}
		}
	}
	if len(next) == 0 {
		return fmt.Sprintf("a transaction is open, phase %s, that nothing asked for\n%s", phase, r.stderr), nil
	}
	for _, m := range next {
		m.Touched, m.Removing = true, true
	}
	wasOpen := w.open
	if w.open = phase != ""; w.open {
		if !wasOpen {
			w.beforeCut = w.may
		}
		w.note += ", " + phase
		w.may = unlike(next)
		return "", nil
	}
	what, err := w.narrow(ctx, next)
	if what != "" {
		what += "\n" + r.stderr
	}
	return what, err
}

// narrow drops the states that the host contradicts.
func (w *walk) narrow(ctx context.Context, next []*Model) (string, error) {
	r, err := w.run(ctx, false, 0, "status", "--format", "json")
	if err != nil {
		return "", err
	}
	var report view.Status
	if r.code != 0 {
		return fmt.Sprintf("status: exit code %d: %s", r.code, r.stderr), nil
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		return fmt.Sprintf("status: %v: %s", err, r.stdout), nil
	}
	var best []string
	var fit []*Model
	for _, m := range unlike(next) {
		diffs, err := w.compare(m, &w.out, report)
		if err != nil {
			return "", err
		}
		if len(diffs) == 0 {
			fit = append(fit, m)
		} else if best == nil || len(diffs) < len(best) {
			best = diffs
		}
	}
	if len(fit) == 0 {
		return strings.Join(best, "\n"), nil
	}
	w.may = fit
	return "", nil
}
