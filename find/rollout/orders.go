package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verb is a kind of order.
type Verb string

// The verbs.
const (
	StartUpdate Verb = "start"
	MarkDone    Verb = "done"
	Rollback    Verb = "back"
	Retry       Verb = "retry"
	Reset       Verb = "reset"
)

// Command is the command of teleport-find that gives the order.
func (v Verb) Command() string { return "rollout " + string(v) }

// Order is a step that a person wants, whatever the schedule says.
type Order struct {
	Verb Verb
	// Groups are its groups. Without any, a rollback is for all that have started, a
	// reset for the whole rollout, and any other order is refused.
	Groups []string
	Force  bool // of StartUpdate
	// To is the goal of a Rollback: start (also if it is empty), previous or a version.
	To  string
	Who string
	Why string
}

// order is a row of the table: the effect of a verb on a group in some state.
type order struct {
	verb       Verb
	from       []State
	under      scope
	force      bool // only with --force
	halted     bool // groups that are halted too
	onlyHalted bool
	broken     bool // only if the plan cannot be read
	when       string
	refused    func(*step) string // why not, "" for nothing
	then       string
	apply      func(*step)
}

// RefusedError is an order that cannot be carried out. Nothing was changed.
type RefusedError struct{ text string }

func (e *RefusedError) Error() string { return e.text }

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// Apply carries the order out on all its groups or, after an error, which is a
// *RefusedError, on none. Like Next it is a pure function.
func (o Order) Apply(c *Config, v *Version, r *Rollout, n Counts, now time.Time) (Result, error) {
	now = moment(now)
	switch {
	case v == nil:
		return Result{}, refuse("there is no rollout, because no version is set: set one with \"teleport-find set-version\"")
	case o.Verb == Reset:
		next := NewRollout(c, v, now)
		return Result{Rollout: next, Steps: []Step{{To: next.Status.State, Reason: ManualReset}}}, nil
	case v.Spec.Agents.Schedule == Immediate:
		return Result{}, refuse("version %s is on the schedule immediate, which has no groups: every host is told to update at once",
			v.Spec.Agents.TargetVersion)
	case r == nil || !r.Of(v):
		return Result{}, refuse("the rollout of version %s has not begun: the server begins it at its next tick", v.Spec.Agents.TargetVersion)
	}
	if o.To != "" && o.Verb != Rollback {
		return Result{}, refuse("%s goes nowhere: --to is for %s", o.Verb.Command(), Rollback.Command())
	}
	e := newEngine(r, n, now)
	e.refresh()
	tasks, err := o.tasks(e)
	if err != nil {
		return Result{}, err
	}
	for _, t := range tasks {
		from, times := t.s.g.State, len(e.out.Steps)
		t.row.apply(t.s)
		if len(e.out.Steps) == times {
			e.out.Steps = append(e.out.Steps, Step{Group: t.s.g.Name, From: from, To: t.s.g.State, Reason: t.s.g.LastUpdateReason})
		}
	}
	if o.Verb == Rollback && len(o.Groups) == 0 {
		e.stopOthers()
	}
	return e.result(r), nil
}

// task is the effect of an order on one group.
type task struct {
	s   *step
	row *order
}

// tasks returns a task for each group, or why the order is refused.
func (o Order) tasks(e *engine) (list []task, err error) {
	steps, err := o.steps(e)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		row, err := o.task(s)
		if err != nil {
			return nil, err
		}
		list = append(list, task{s, row})
	}
	return list, nil
}

// task returns the row of the order for one group, or why the order is refused.
func (o Order) task(s *step) (*order, error) {
	row, err := o.row(s)
	if err != nil {
		return nil, err
	}
	s.force, s.to = o.Force, o.To
	if row.refused != nil {
		if why := row.refused(s); why != "" {
			return nil, refuse("group %s: %s", excerpt(s.g.Name), why)
		}
	}
	return row, nil
}

// steps returns the groups that the order is for.
func (o Order) steps(e *engine) (list []*step, err error) {
	if len(e.steps) == 0 {
		return nil, refuse("the rollout has no groups")
	}
	for _, name := range o.Groups {
		i := e.r.group(name)
		if i < 0 {
			var names []string
			for _, s := range e.steps {
				names = append(names, excerpt(s.g.Name))
			}
			return nil, refuse("the rollout has no group %s (there are %s)", excerpt(name), strings.Join(names, ", "))
		}
		if !slices.Contains(list, e.steps[i]) {
			list = append(list, e.steps[i])
		}
	}
	switch {
	case len(o.Groups) > 0:
		return list, nil
	case o.Verb != Rollback:
		return nil, refuse("%s: which groups?", o.Verb.Command())
	}
	for _, s := range e.steps {
		if s.g.State != Unstarted && s.g.State != RolledBack {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil, refuse("no group has started")
	}
	return list, nil
}

// row returns the row of the verb for the present state of a group.
func (o Order) row(s *step) (*order, error) {
	halted := s.g.Halted != nil
	known := false
	for i := range orders {
		row := &orders[i]
		if row.verb != o.Verb {
			continue
		}
		known = true
		switch {
		case !slices.Contains(row.from, s.g.State), !s.is(s.g.State, row.under), row.force && !o.Force:
		case halted && !row.halted && !row.onlyHalted, row.onlyHalted && !halted:
		case row.broken && (s.g.Plan == nil || s.n.Flight != nil):
		default:
			return row, nil
		}
	}
	switch {
	case !known:
		return nil, refuse("there is no order %q", string(o.Verb))
	case halted:
		return nil, refuse("group %s is halted (%s): retry it, mark it done or roll it back", excerpt(s.g.Name), s.g.Halted.Reason)
	case o.Verb == Retry:
		return nil, refuse("group %s is %s, not halted: there is nothing to retry", excerpt(s.g.Name), s.g.State)
	case o.Verb == StartUpdate && s.g.State == Canarying:
		return nil, refuse("group %s waits for its canaries: --force goes on without them", excerpt(s.g.Name))
	}
	return nil, refuse("group %s is %s: %s does nothing with it", excerpt(s.g.Name), s.g.State, o.Verb.Command())
}

// Groups that choose hosts cannot begin before the counts are complete.
const uncountedWords = "the server has collected reports for less than 25 minutes, and does not know all hosts yet"

func (s *step) refuseStart() string {
	switch {
	case s.e.uncounted && s.g.ConfigMaxInFlight != nil:
		return uncountedWords + "; a group with max_in_flight needs to"
	case s.force:
		return ""
	case s.e.uncounted:
		return uncountedWords + "; --force starts the group anyway, without canaries"
	case s.allMissing():
		return "its hosts reported within the last day, and none of them reports now; --force starts it anyway, without canaries"
	}
	for _, i := range s.e.before(s.place) {
		g := &s.r.Status.Groups[i]
		if g.State != Done || g.Halted != nil {
			return fmt.Sprintf("group %s comes before it, and is not done; --force starts it anyway, without canaries", excerpt(g.Name))
		}
	}
	return ""
}

func (s *step) refuseUncounted() string {
	if s.e.uncounted {
		return uncountedWords
	}
	return ""
}

func (s *step) startByHand() {
	reason := ManualStart
	if s.force {
		reason = ManualForced
	}
	if picked := s.pick(); len(picked) > 0 && !s.force && s.r.Spec.Strategy == HaltOnError {
		s.move(Canarying, reason, (*step).startCanaries)
		return
	}
	s.move(Active, reason, func(s *step) {
		s.startAll()
		if s.r.Spec.Strategy == TimeBased && !s.r.Spec.AnyHour {
			s.g.WindowEnd = s.now.Add(time.Duration(s.r.Spec.Window))
		}
	})
}

func (s *step) forceOn() { s.move(Active, ManualForced, (*step).goOn) }

// markDone closes the window of a time-based group too, or it would be opened again
// in the same one.
func (s *step) markDone() {
	s.move(Done, ManualDone, func(s *step) {
		s.finish()
		s.g.Halted, s.g.Conditions, s.g.RollbackVersion = nil, nil, ""
		if !s.r.within(untilClosed) {
			return
		}
		if w, inside := s.window(); inside {
			s.g.WindowEnd = later(s.g.WindowEnd, w.to)
		}
	})
}

// stopOthers keeps groups that have not started from starting with a version that
// was rolled back. Their hosts are not moved: they may be older than the start
// version, and nobody has ordered an upgrade.
func (e *engine) stopOthers() {
	for _, s := range e.steps {
		if s.g.State == Unstarted && s.g.Halted == nil {
			s.halt(RolloutRollback, "the rollout was rolled back before the group started")
		}
	}
}

// retryMessage says when hosts try again after a retry.
func retryMessage(failed int) string {
	if failed == 0 {
		return "hosts hear of it at their next poll, within ten minutes or so"
	}
	return fmt.Sprintf("hosts hear of it at their next poll, within ten minutes or so; %s that reported the failure then %s at "+
		"once, without waiting for the end of the back-off",
		hosts(failed), map[bool]string{true: "tries again", false: "try again"}[failed == 1])
}

func (s *step) retry() {
	if s.g.State == Unstarted {
		s.move(Unstarted, ManualRetry, func(s *step) { s.g.Halted, s.g.RetryTime = nil, s.now })
		return
	}
	windowEnd, failed := s.g.WindowEnd, s.n.Failed
	s.g.RetryTime = s.beginning()
	defer func() { s.e.out.Steps[len(s.e.out.Steps)-1].Message = retryMessage(failed) }()
	if picked := s.pick(); len(picked) > 0 && s.r.Spec.Strategy == HaltOnError {
		s.move(Canarying, ManualRetry, (*step).startCanaries)
		return
	}
	s.move(Active, ManualRetry, func(s *step) {
		s.startAll()
		s.g.WindowEnd = windowEnd
	})
}

// Words is the order as the history has it: the command without its reason.
func (o Order) Words() string {
	words := []string{o.Verb.Command()}
	if o.Force {
		words = append(words, "--force")
	}
	if o.To != "" && o.To != BackToStart {
		words = append(words, "--to", o.To)
	}
	return strings.Join(append(words, o.Groups...), " ")
}
