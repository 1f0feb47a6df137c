package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"teleport-update/find/rollout"
)

const (
	// tickEvery is a server's interval while a group is on its way.
	tickEvery = 10 * time.Second
	// restEvery is how often an engine runs while it only waits for hours to pass: a step may come so
	// much later.
	restEvery = time.Minute
	// known is how long the hosts have reported when the simulation begins.
	known = 30 * time.Minute
	// maxExamples is how many hosts of a group get events of their own.
	maxExamples = 3
)

// world is a server with its hosts.
type world struct {
	scenario *Scenario
	now      time.Time
	rollout  *rollout.Rollout
	plans    map[string]*rollout.Index
	snapshot *rollout.Snapshot
	fleet    *fleet
	queue    queue
	timeline *Timeline

	examples map[string]int
	quarters map[string]int // quarters of a group's hosts that are on the target
	rules    map[string]*RuleUse
	pointed  map[string]bool
}

// Run tries a scenario, which must pass its Check. It ends early with ctx.
func Run(ctx context.Context, s Scenario) (*Timeline, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	s.Begin = s.Begin.UTC().Truncate(time.Second)
	w := &world{
		scenario: &s, now: s.Begin.Add(-known), plans: make(map[string]*rollout.Index), timeline: &Timeline{Events: []Event{}},
		examples: make(map[string]int), quarters: make(map[string]int), rules: make(map[string]*RuleUse), pointed: make(map[string]bool),
	}
	w.fleet = newFleet(&s, slices.Sorted(maps.Keys(s.Hosts)))
	w.shoot()
	for _, h := range w.fleet.hosts {
		h.at = w.now.Add(h.within(min(s.Poll, known/2)))
		w.queue = append(w.queue, h)
	}
	heap.Init(&w.queue)
	w.hostsUntil(s.Begin)
	for end := s.Begin.Add(s.For); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := w.tick(); err != nil {
			return nil, err
		}
		if w.timeline.Why = w.over(end); w.timeline.Why != "" {
			break
		}
		w.hostsUntil(w.now.Add(w.step()))
	}
	w.timeline.Ended = w.now
	w.timeline.End = rollout.Survey(w.scene())
	for _, use := range w.rules {
		w.timeline.Rules = append(w.timeline.Rules, *use)
	}
	slices.SortFunc(w.timeline.Rules, func(a, b RuleUse) int {
		return cmp.Or(indexOf(w.timeline.Events, a.Reason)-indexOf(w.timeline.Events, b.Reason), cmp.Compare(a.Rule, b.Rule))
	})
	return w.timeline, nil
}

// indexOf orders rules by their first use.
func indexOf(events []Event, reason rollout.Reason) int {
	return slices.IndexFunc(events, func(e Event) bool { return e.Reason == reason })
}

// hostsUntil lets hosts act until a moment, and makes it the present.
func (w *world) hostsUntil(then time.Time) {
	for len(w.queue) > 0 && !w.queue[0].at.After(then) {
		h := w.queue[0]
		w.now = h.at
		h.act(h, w)
		if h.at.IsZero() {
			heap.Pop(&w.queue)
		} else {
			heap.Fix(&w.queue, 0)
		}
	}
	w.now = then
}

// step returns how long it is until the engine runs again.
func (w *world) step() time.Duration {
	for i := range w.rollout.Status.Groups {
		if g := &w.rollout.Status.Groups[i]; g.State == rollout.Canarying || g.State == rollout.Active {
			return tickEvery
		}
	}
	return restEvery
}

func (w *world) counts() rollout.Counts {
	if w.rollout == nil {
		return rollout.Counts{Complete: true}
	}
	return rollout.Count(w.rollout, w.fleet, w.plans, rollout.CountOptions{Complete: true, Jitter: w.scenario.Jitter, Now: w.now})
}

func (w *world) scene() rollout.Scene {
	return rollout.Scene{Config: w.scenario.Config, Version: w.scenario.Version, Rollout: w.rollout, Counts: w.counts(), Now: w.now}
}

// shoot makes the snapshot for answers to hosts.
func (w *world) shoot() {
	w.snapshot = rollout.NewSnapshot(w.scenario.Config, w.scenario.Version, w.rollout, w.plans)
}

// tick runs the engine once.
func (w *world) tick() error {
	return w.take(rollout.Next(w.scenario.Config, w.scenario.Version, w.rollout, w.counts(), w.now))
}

// take applies the result of a tick or an order.
func (w *world) take(result rollout.Result) error {
	for _, step := range result.Steps {
		w.addEvent(step)
	}
	for _, plan := range result.Plans {
		index, err := rollout.NewIndex(plan.Hosts)
		if err != nil {
			return err
		}
		w.plans[plan.Group] = index
	}
	if result.Rollout != w.rollout {
		w.rollout = result.Rollout
		w.shoot()
		w.progress()
	}
	return nil
}

func (w *world) add(e Event) {
	e.Time = w.now
	w.timeline.Events = append(w.timeline.Events, e)
}

// say adds an example of the hosts' acts.
func (w *world) say(group, what string) {
	switch w.examples[group]++; w.examples[group] {
	case maxExamples + 1:
		w.add(Event{Group: group, What: "more hosts have the same problem"})
	default:
		if w.examples[group] <= maxExamples {
			w.add(Event{Group: group, What: what})
		}
	}
}

// addEvent adds a step of the engine, and counts its rule.
func (w *world) addEvent(s rollout.Step) {
	e := Event{Group: s.Group, Reason: s.Reason, step: s}
	switch {
	case s.Group == "":
		spec := w.scenario.Version.Spec.Agents
		e.What = fmt.Sprintf("the rollout begins: %s → %s", spec.StartVersion, spec.TargetVersion)
	case s.Halted:
		e.What = fmt.Sprintf("halted: %s", s.Message)
	default:
		e.What = fmt.Sprintf("%s → %s", s.From, s.To)
	}
	w.add(e)
	rule := s.Rule
	if rule == "" {
		rule = "autoupdate_version differs from the version of the rollout"
	}
	if w.rules[string(s.Reason)+rule] == nil {
		w.rules[string(s.Reason)+rule] = &RuleUse{Reason: s.Reason, Rule: rule}
	}
	w.rules[string(s.Reason)+rule].Times++
}

// progress adds new conditions, and quarters of groups that have reached the target.
func (w *world) progress() {
	for i := range w.rollout.Status.Groups {
		g := &w.rollout.Status.Groups[i]
		for _, c := range g.Conditions {
			if key := g.Name + string(c.Type); !w.pointed[key] {
				w.pointed[key] = true
				w.add(Event{Group: g.Name, What: fmt.Sprintf("%s: %s", c.Type, c.Message)})
			}
		}
		if quarter := 4 * g.UpToDateCount / max(1, g.PresentCount); quarter > w.quarters[g.Name] && g.State != rollout.Unstarted {
			w.quarters[g.Name] = quarter
			w.add(Event{Group: g.Name, What: fmt.Sprintf("%d of %s on %s", g.UpToDateCount, hostsAre(g.PresentCount), w.rollout.Spec.TargetVersion)})
		}
	}
}

// over returns why the simulation ends; empty while it goes on.
func (w *world) over(end time.Time) string {
	spec, status := w.rollout.Spec, w.rollout.Status
	switch {
	case spec.Schedule == rollout.Immediate && w.settled():
		return "all hosts that can be are on the version"
	case status.State == rollout.Done && (spec.Strategy == rollout.HaltOnError || w.settled()):
		return "all groups are done"
	case !w.now.Before(end):
		return "the time of the simulation is over"
	case spec.Mode != rollout.Enabled:
		return fmt.Sprintf("updates are %s: nothing happens", spec.Mode)
	}
	for i, start := range rollout.Preview(w.scenario.Config, w.scenario.Version, w.rollout, w.now) {
		g := &status.Groups[i]
		moving := (g.State == rollout.Canarying || g.State == rollout.Active) && g.Halted == nil && len(g.Conditions) == 0
		if moving || start.Waits == "" && g.State == rollout.Unstarted && len(g.Conditions) == 0 {
			return ""
		}
	}
	if spec.Schedule == rollout.Immediate || status.State == rollout.Done {
		return ""
	}
	return "no group goes on by itself"
}

// settled reports whether no host has an update before it, except hosts that failed or are lost.
func (w *world) settled() bool {
	return !slices.ContainsFunc(w.fleet.hosts, func(h *host) bool {
		return h.version != w.rollout.Spec.TargetVersion && !h.lost && h.failed == ""
	})
}

func hostsAre(n int) string {
	if n == 1 {
		return "1 host is"
	}
	return fmt.Sprintf("%d hosts are", n)
}
