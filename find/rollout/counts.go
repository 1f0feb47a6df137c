package rollout

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Counts is the content of the hosts' reports at one moment, as far as a rollout needs
// it. Groups has one entry for each group of that rollout, in its order.
type Counts struct {
	// Complete says that every host has had time to report to this server. While
	// it has not, nothing advances: a host that is missing may be on its way.
	Complete bool
	Subject  string // of the rollout whose groups were counted, see Rollout.Subject
	Groups   []GroupCounts
	// Omitted counts the hosts that report and are in no count, by reason.
	Omitted map[string]int
	// Unmatched counts hosts by the group they named that no schedule has.
	Unmatched map[string]int
}

// GroupCounts counts the hosts of one group. Present are hosts that count: seen for a
// minute, their last report not older than PresentFor, neither pinned nor disabled, nor kept apart by an order.
type GroupCounts struct {
	Present  int
	UpToDate int // present, and on the target
	Versions map[Semver]int
	// Failed and TimedOut count the hosts that were to update since the group started.
	// If the group has a plan, only admitted hosts count.
	Failed, TimedOut int
	Unhealthy        int // present, and their agent is down
	// Missing are hosts that reported within a day, and cannot be counted now:
	// they are not present, or have just come back.
	Missing int
	// Tally has each host that is present or missing once.
	Tally    Tally
	Problems []Problem
	Canaries []CanaryReport // of the group's canaries, in their order
	// Flight is nil if the group has no plan, or its plan is broken.
	Flight *Flight
	// Eligible returns the hosts that are present and not yet on the target, each time
	// the same. It may be nil. Look returns a host; it returns false if the host has
	// been forgotten.
	Eligible func() []HostID
	Look     func(HostID) (Host, bool)
}

// Subject names what counts of a rollout are about: its versions and its groups, in their order. Counts with another subject
// are not of this rollout.
func (r *Rollout) Subject() string {
	parts := []string{string(r.Spec.StartVersion), string(r.Spec.TargetVersion)}
	for i := range r.Status.Groups {
		parts = append(parts, r.Status.Groups[i].Name)
	}
	return strings.Join(parts, "\x00")
}

// Detached returns the counts without their functions, for a caller that keeps them longer than the fleet stays as it
// is.
func (n Counts) Detached() Counts {
	n.Groups = slices.Clone(n.Groups)
	for i := range n.Groups {
		n.Groups[i].Eligible, n.Groups[i].Look = nil, nil
	}
	return n
}

// Problem is an example for people of a host with a problem.
type Problem struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname,omitempty"`
	Error    string `json:"error"`
}

// maxProblems is how many examples there are for one group.
const maxProblems = 3

// CanaryReport is the state of one canary.
type CanaryReport struct {
	OnTarget bool
	Failed   bool // it failed or was rolled back
	TimedOut bool // it has said that it shall update, and its time is over
	// Lost says that the canary cannot finish: it is not present, was pinned, disabled or
	// held, or names another group. Silent says that it reports, but has not said
	// that it shall update, although the time for the update is over.
	Lost, Silent bool
	Error        string
}

// Reasons why a host that reports is in no count.
const (
	omitNew       = "seen for less than a minute"
	omitAbsent    = "no report for 25 minutes"
	omitPinned    = "pinned to a version"
	omitDisabled  = "updates are disabled on the host"
	omitCloned    = "several hosts report with one secret"
	omitHeld      = "held by an order"
	omitElsewhere = "sent to another version by an order"
	omitUnmatched = "its group is in no schedule (unmatched: hold)"
)

// CountOptions are the parameters of a Count.
type CountOptions struct {
	Complete bool          // as in Counts
	Jitter   time.Duration // for hosts whose group sets none
	Now      time.Time
	// Overrides are the orders to hosts. A host that is held, or sent to another version than the target, is in no count, and
	// waits in no plan.
	Overrides Overrides
}

// Count counts the hosts of a fleet for a rollout. plans holds the readable plans of
// groups. It is a pure function: the result depends on its arguments alone.
func Count(r *Rollout, fleet Fleet, plans map[string]*Index, opts CountOptions) Counts {
	c := counter{r: r, fleet: asLarge(fleet), now: opts.Now, places: make(map[string]int, len(r.Status.Groups))}
	c.counts = Counts{Complete: opts.Complete, Subject: r.Subject(), Groups: make([]GroupCounts, len(r.Status.Groups)),
		Omitted:   make(map[string]int),
		Unmatched: make(map[string]int)}
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		c.places[g.Name] = i
		c.trials = append(c.trials, newTrial(r, g, opts))
	}
	c.apart = c.keptApart(opts.Overrides)
	c.all()
	c.eligible = sync.OnceValue(c.findEligible)
	for i := range r.Status.Groups {
		c.group(i, plans[r.Status.Groups[i].Name])
	}
	return c.counts
}

type counter struct {
	r        *Rollout
	fleet    LargeFleet
	now      time.Time
	places   map[string]int
	trials   []trial
	counts   Counts
	eligible func() [][]HostID
	apart    map[HostID]string // why an order keeps a host out of all counts
}

func (c *counter) keptApart(list Overrides) map[HostID]string {
	apart := make(map[HostID]string)
	for id := range list {
		h := c.fleet.Host(ParseHostID(id))
		if h == nil {
			continue
		}
		if o, holds := list.Of(h.ID, h.Group, c.r, c.now); holds && o.omitted(c.r.Spec.TargetVersion) != "" {
			apart[h.ID] = o.omitted(c.r.Spec.TargetVersion)
		}
	}
	return apart
}

// all counts every host. Of plain hosts that are counted together, those that an order keeps apart are taken out.
func (c *counter) all() {
	type kind struct {
		group   string
		version Semver
	}
	counted := make(map[kind]int)
	for id := range c.apart {
		if h := c.fleet.Host(id); h.Plain(c.now) {
			counted[kind{h.Group, h.Version}]++
			c.host(h, 1)
		}
	}
	for h, many := range c.fleet.Alike(c.now) {
		if len(c.apart) > 0 && h.Plain(c.now) {
			one := *h
			one.ID, h = HostID{}, &one // any of them
			k := kind{h.Group, h.Version}
			taken := min(counted[k], many)
			counted[k], many = counted[k]-taken, many-taken
		}
		if many > 0 {
			c.host(h, many)
		}
	}
}

// omitted returns why no count includes a host, or "".
func (c *counter) omitted(h *Host) string {
	return cmp.Or(h.omitted(c.now), c.apart[h.ID])
}

// place returns the group of a host, or why it has none. A host whose group is not
// known is in the last one.
func (c *counter) place(h *Host) (at int, known bool, omitted string) {
	at, known = c.places[h.Group]
	if !known {
		if c.r.Spec.Unmatched == Hold {
			return -1, false, omitUnmatched
		}
		at = len(c.trials) - 1
	}
	return at, known, c.omitted(h)
}

// maxUnmatched bounds the names of groups that hosts can make up.
const maxUnmatched = 100

// host counts hosts that are alike. Several are plain: there is nothing to judge them by.
func (c *counter) host(h *Host, many int) {
	at, known, omitted := c.place(h)
	if !known && h.Group != "" && omitted != omitAbsent && len(c.places) > 0 {
		if _, there := c.counts.Unmatched[h.Group]; there || len(c.counts.Unmatched) < maxUnmatched {
			c.counts.Unmatched[h.Group] += many
		}
	}
	if at >= 0 && c.r.Status.Groups[at].Plan == nil && c.apart[h.ID] == "" {
		c.tally(&c.counts.Groups[at], h, c.trials[at])
	}
	if omitted != "" {
		c.counts.Omitted[omitted] += many
		if at >= 0 && (omitted == omitNew || omitted == omitAbsent && c.now.Sub(h.LastSeen) < missedFor) {
			c.counts.Groups[at].Missing += many
			c.counts.Groups[at].Tally[c.r.classOf(h.Version)][HostMissing] += many
		}
		return
	}
	if at < 0 {
		return // there are no groups
	}
	n := &c.counts.Groups[at]
	n.Present += many
	if n.Versions == nil {
		n.Versions = make(map[Semver]int)
	}
	n.Versions[h.Version] += many
	if h.Version == c.r.Spec.TargetVersion {
		n.UpToDate += many
	}
	if h.Unhealthy {
		n.Unhealthy += many
	}
	n.Tally[c.r.classOf(h.Version)][h.resultOf(c.trials[at])] += many
}

// tally counts a host of a group without a plan. Only reports show which hosts shall
// update. Hosts that have gone away since then count, too.
func (c *counter) tally(n *GroupCounts, h *Host, t trial) {
	if !t.begun {
		return
	}
	state := h.progress(t)
	n.judge(h, state, h.hasFailed(t))
}

// judge counts a host that has its turn.
func (n *GroupCounts) judge(h *Host, state progress, hasFailed bool) {
	switch {
	case hasFailed:
		n.Failed++
		n.addProblem(h, h.Failed.Error)
	case state == gone:
		n.Failed++
		n.addProblem(h, "it began to update and has not reported since")
	case state == timedOut:
		n.TimedOut++
		n.addProblem(h, "it did not reach the version in time")
	}
}

// addProblem keeps the problems of the hosts with the lowest ids: all servers, and each count, have the same examples.
func (n *GroupCounts) addProblem(h *Host, problem string) {
	n.Problems = append(n.Problems, Problem{h.ID.String(), h.Hostname, problem})
	slices.SortFunc(n.Problems, func(a, b Problem) int { return strings.Compare(a.ID, b.ID) })
	n.Problems = n.Problems[:min(len(n.Problems), maxProblems)]
}

// group adds the parts that need a look at single hosts.
func (c *counter) group(i int, plan *Index) {
	g, n := &c.r.Status.Groups[i], &c.counts.Groups[i]
	for _, canary := range g.Canaries {
		n.Canaries = append(n.Canaries, c.canaryReport(c.fleet.Host(ParseHostID(canary.HostID)), i))
	}
	if g.Plan != nil && plan != nil {
		n.Flight = c.flight(i, plan)
	}
	n.Eligible = func() []HostID { return c.eligible()[i] }
	n.Look = func(id HostID) (Host, bool) {
		h := c.fleet.Host(id)
		if h == nil {
			return Host{}, false
		}
		return *h, true
	}
}

func (c *counter) canaryReport(h *Host, group int) CanaryReport {
	if h == nil {
		return CanaryReport{Lost: true}
	}
	t := c.trials[group]
	if c.apart[h.ID] != "" {
		return CanaryReport{OnTarget: h.Version == c.r.Spec.TargetVersion, Lost: true}
	}
	state, omitted := c.progressOf(h, group), c.omitted(h)
	waits := state == silent || state == underway && !h.wasTold(t)
	return CanaryReport{
		OnTarget: state == updated, Failed: h.hasFailed(t) || state == gone, TimedOut: state == timedOut,
		Lost:   state == withdrawn || omitted != "" && omitted != omitNew,
		Silent: waits && !c.now.Before(t.since.Add(max(t.limit, PresentFor))), Error: h.Failed.Error,
	}
}

// findEligible goes through the fleet once for all groups.
func (c *counter) findEligible() [][]HostID {
	lists := make([][]HostID, len(c.trials))
	for i := range lists {
		n := &c.counts.Groups[i]
		lists[i] = make([]HostID, 0, n.Present-n.UpToDate)
	}
	for h := range c.fleet.All() {
		if at, _, omitted := c.place(h); at >= 0 && omitted == "" && h.Version != c.r.Spec.TargetVersion {
			lists[at] = append(lists[at], h.ID)
		}
	}
	return lists
}
