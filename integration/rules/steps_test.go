package rules

import (
	"fmt"
	"slices"
	"time"
)

// indexPause is how often the index of a plan is written at most.
const indexPause = 10 * time.Second

// picker says whom the engine drew for a group: draws are random by design, so the
// model takes them over. drawn checks that so many of these hosts may be drawn.
type picker interface {
	canaries(g *group) []string
	plan(g *group) []string
	drawn(g *group, what string, ids, of []string, many int)
}

// begin starts a rollout. All groups are unstarted.
func (m *model) begin(start, target, schedule string, timeBased bool, window time.Duration, hold, anyHour bool, wishes []wish) {
	r := &course{start: start, target: target, schedule: schedule, timeBased: timeBased, window: window, hold: hold, anyHour: anyHour, since: m.now}
	if schedule != "immediate" {
		for _, w := range wishes {
			r.groups = append(r.groups, &group{want: w, state: unstarted, index: -1})
		}
	}
	m.rollout = r
}

// tick moves groups until nothing moves any more.
func (m *model) tick(complete bool, pick picker) {
	m.complete = complete
	m.setPreviousVersion()
	if m.rollout == nil || m.mode != "enabled" {
		return
	}
	for range 20 {
		if !m.step(pick) {
			return
		}
	}
}

// setPreviousVersion keeps what most hosts of each group ran when the rollout began: at the
// first complete counts in which a host of the group reports. Of a group that has
// started by then, hosts on the target say nothing.
func (m *model) setPreviousVersion() {
	if m.rollout == nil || !m.complete {
		return
	}
	of := membership(m.hosts, m.rollout.groups, m.rollout.hold)
	for i, g := range m.rollout.groups {
		if g.previous != "" {
			continue
		}
		most := 0
		for version, hosts := range m.count(g, of[i]).versions {
			if version == m.rollout.target && g.state != unstarted {
				continue
			}
			if hosts > most || hosts == most && number(version) > number(g.previous) {
				most, g.previous = hosts, version
			}
		}
	}
}

// number is the one that tells the versions of this world apart.
func number(version string) (n int) {
	fmt.Sscanf(version, "1.%d.0", &n)
	return n
}

// halt stops a group. Orders to update its hosts that were given before are over.
func (m *model) halt(g *group, reason string) { g.halted, g.stopped = reason, m.now }

// step gives each group one look and reports whether any was moved.
func (m *model) step(pick picker) (moved bool) {
	of := membership(m.hosts, m.rollout.groups, m.rollout.hold)
	for i, g := range m.rollout.groups {
		before := *g
		m.move(g, of[i], pick)
		moved = moved || before.state != g.state || before.halted != g.halted || before.index != g.index
	}
	return moved
}

// byOrder reports whether groups follow one another, as under halt-on-error. A
// critical version without a schedule of its own does so under both strategies.
func (r *course) byOrder() bool { return !r.timeBased || r.anyHour }

func (m *model) move(g *group, members []*knownHost, pick picker) {
	n := m.count(g, members)
	waits := g.state == unstarted || g.state == done
	if g.halted != "" || waits && !m.complete {
		return
	}
	switch {
	case m.rollout.byOrder() && g.state == unstarted:
		m.maybeStart(g, n, pick)
	case !m.rollout.byOrder() && (g.state == unstarted || g.state == done):
		m.maybeOpen(g, n, pick)
	case g.state == canary:
		m.lookAtCanaries(g, members, pick)
	case g.state == active:
		m.lookAtActive(g, n)
	}
}

// before returns all groups that must be done first, those of which they wait included.
func (r *course) before(g *group) (all []*group) {
	graph := slices.ContainsFunc(r.groups, func(o *group) bool { return len(o.want.requires) > 0 })
	if !graph {
		return r.groups[:slices.Index(r.groups, g)]
	}
	for _, name := range g.want.requires {
		i := slices.IndexFunc(r.groups, func(o *group) bool { return o.want.name == name })
		all = append(append(all, r.groups[i]), r.before(r.groups[i])...)
	}
	return all
}

func (m *model) maybeStart(g *group, n tally, pick picker) {
	var all []*group
	if !m.rollout.timeBased { // groups of that strategy do not wait for one another
		all = m.rollout.before(g)
	}
	if slices.ContainsFunc(all, func(o *group) bool { return o.state != done || o.halted != "" }) {
		return
	}
	if !m.rollout.anyHour {
		for _, o := range all {
			if m.now.Before(o.doneAt.Add(time.Duration(g.want.wait) * time.Hour)) {
				return
			}
		}
		if _, open := g.want.opened(m.now, time.Hour); !open {
			return
		}
	}
	if !m.rollout.timeBased && n.present == 0 && n.missing > 0 {
		return
	}
	m.start(g, n, pick, g.want.canaries > 0)
}

// start lets a group begin, canaries first if it has any.
func (m *model) start(g *group, n tally, pick picker, withCanaries bool) {
	g.trial, g.initial, g.back = m.now, n.present, ""
	g.canaries, g.plan, g.index = nil, nil, -1
	if many := min(g.want.canaries, n.suitable); withCanaries && many > 0 {
		var suitable []string
		for _, id := range n.eligible {
			if m.hosts[id].suits(m.rollout.target, m.now) {
				suitable = append(suitable, id)
			}
		}
		g.state, g.canaries = canary, pick.canaries(g)
		pick.drawn(g, "canaries", g.canaries, suitable, many)
		return
	}
	m.activate(g, n, pick)
}

func (m *model) maybeOpen(g *group, n tally, pick picker) {
	begin, open := g.want.opened(m.now, m.rollout.window)
	had := g.state == done && !begin.Add(m.rollout.window).After(g.windowEnd)
	if !open || had {
		return
	}
	m.start(g, n, pick, false)
	g.windowEnd = begin.Add(m.rollout.window)
}

func (m *model) lookAtCanaries(g *group, members []*knownHost, pick picker) {
	succeeded := 0
	for _, id := range g.canaries {
		h := m.hosts[id]
		failed, timedOut := m.trialOf(h, g)
		if h.omitted() || !slices.Contains(members, h) { // withdrawn: only its verdict counts
			failed, timedOut = m.saidFailed(h, g), false
		}
		if m.keptApart(h) { // a person has taken it out
			failed, timedOut = false, false
		}
		switch {
		case failed:
			m.halt(g, "canary_failed")
		case timedOut && g.halted == "":
			m.halt(g, "canary_timed_out")
		case h.last.version == m.rollout.target:
			succeeded++
		}
	}
	if g.halted == "" && m.complete && succeeded == len(g.canaries) {
		m.activate(g, m.count(g, members), pick)
	}
}

// activate gives all hosts of the group their turn, or the order of a plan.
func (m *model) activate(g *group, n tally, pick picker) {
	g.state = active
	if g.want.inFlight >= 0 {
		g.plan, g.planAt = append([]string{}, pick.plan(g)...), m.now
		pick.drawn(g, "the plan", g.plan, n.eligible, len(n.eligible))
	}
}

// exhausted reports whether everybody in the plan has had a turn and nobody is in
// flight, silent hosts excepted if the limits allow them.
func (g *group) exhausted(n tally) bool {
	if !g.planned() {
		return true
	}
	timeouts, _ := g.want.limits()
	allowed := (n.timedOut+n.silent)*100 <= timeouts*len(g.plan)
	flying := n.inFlight
	if allowed {
		flying -= n.silent
	}
	return g.index == len(g.plan)-1 && flying == 0
}

func (m *model) lookAtActive(g *group, n tally) {
	hosts := len(g.plan)
	if !g.planned() {
		hosts = max(g.initial, n.present)
	}
	timeouts, failures := g.want.limits()
	if g.want.guarded() {
		switch {
		case n.failed*100 > failures*hosts:
			m.halt(g, "hosts_failed")
			return
		case n.timedOut*100 > timeouts*hosts:
			m.halt(g, "hosts_timed_out")
			return
		}
	}
	if !m.complete {
		return // a failure that was reported is one; all else may be on its way
	}
	if !g.want.guarded() && m.rollout.byOrder() && g.initial > 0 && (hosts-n.failing)*100 < g.want.threshold()*hosts {
		m.halt(g, "hosts_failed")
		return
	}
	if m.finished(g, n) {
		g.state, g.doneAt = done, m.now
		return
	}
	if g.planned() && m.now.Sub(g.planAt) >= 24*time.Hour && !g.exhausted(n) {
		m.halt(g, "expired")
		return
	}
	if g.planned() && n.place > g.index && m.now.Sub(g.indexAt) >= indexPause {
		g.index, g.indexAt = n.place, m.now
	}
}

func (m *model) finished(g *group, n tally) bool {
	if !m.rollout.byOrder() {
		return !m.now.Before(g.windowEnd)
	}
	if g.initial == 0 {
		_, inWindow := g.want.opened(g.trial, time.Hour)
		if m.rollout.anyHour || !inWindow {
			return !m.now.Before(g.trial.Add(time.Hour)) // no window says when the hour ends
		}
		hour := time.Date(m.now.Year(), m.now.Month(), m.now.Day(), m.now.Hour(), 0, 0, 0, time.UTC)
		return hour.After(g.trial)
	}
	return n.upToDate*100 >= g.want.threshold()*max(g.initial, n.present) && g.exhausted(n)
}

// findAnswer is what find answers a host.
type findAnswer struct {
	version string
	update  bool
	retry   int64 // the second of a retry after which a host lifts its back-off; 0 for none
}

// channel is what updaters of RFD 0109 are told that follow a group: the version to
// which its hosts are told to update, or none. It is never critical with another
// version than the target.
func (m *model) channel(groupName string) (version string, critical bool) {
	a := m.answer(groupName, "")
	if !a.update {
		return "", false
	}
	return a.version, m.rollout.schedule != "regular" && a.version == m.rollout.target
}

// answer is the page's table "What find answers".
func (m *model) answer(groupName, host string) findAnswer {
	a := m.answerToGroup(groupName, host)
	o := m.orderThatHolds(host, groupName)
	switch {
	case o == nil:
	case o.action == "hold":
		a.update, a.retry = false, 0
	case m.mode == "enabled":
		a = findAnswer{version: o.to, update: true}
		if o.to == m.rollout.target {
			a.retry = o.at.Unix()
			if g := m.groupOf(groupName); g != nil {
				a.retry = later(o.at, g.retried).Unix()
			}
		}
	}
	return a
}

func (m *model) answerToGroup(groupName, host string) findAnswer {
	r := m.rollout
	if r == nil {
		return findAnswer{}
	}
	var g *group
	if r.schedule != "immediate" {
		i := slices.IndexFunc(r.groups, func(o *group) bool { return o.want.name == groupName })
		if i < 0 {
			i = len(r.groups) - 1
		}
		g = r.groups[i]
		if g.want.name != groupName && r.hold {
			a := m.answerIn(g, host)
			a.update, a.retry = false, 0
			return a
		}
	}
	return m.answerIn(g, host)
}

// answerIn is the answer for a host that counts as one of a group, or of none if the
// schedule has no groups.
func (m *model) answerIn(g *group, host string) findAnswer {
	r := m.rollout
	switch {
	case m.mode == "disabled":
		return findAnswer{version: r.target}
	case m.mode == "suspended" && g != nil && g.state == rolledback:
		return findAnswer{version: g.back}
	case m.mode == "suspended" && g != nil && (g.state == unstarted || g.state == canary):
		return findAnswer{version: r.start}
	case m.mode == "suspended":
		return findAnswer{version: r.target}
	case r.schedule == "immediate":
		return findAnswer{version: r.target, update: true}
	}
	a := m.answerOf(g, host)
	if a.update && a.version == r.target && !g.retried.IsZero() {
		a.retry = g.retried.Unix()
	}
	return a
}

func (m *model) answerOf(g *group, host string) findAnswer {
	r := m.rollout
	halted := g.halted != "" && g.halted != "expired"
	open := r.byOrder() || m.now.Before(g.windowEnd)
	switch {
	case g.state == unstarted:
		return findAnswer{version: r.start}
	case g.state == canary && slices.Contains(g.canaries, host):
		return findAnswer{version: r.target, update: !halted}
	case g.state == canary:
		return findAnswer{version: r.start}
	case g.state == active && halted:
		return findAnswer{version: r.target}
	case g.state == active && g.planned():
		place := g.place(host)
		return findAnswer{version: r.target, update: open && place >= 0 && place <= g.index}
	case g.state == active:
		return findAnswer{version: r.target, update: open}
	case g.state == done:
		return findAnswer{version: r.target, update: r.byOrder()}
	}
	return findAnswer{version: g.back, update: true}
}

// backTo is where a rollback of a group goes.
func (m *model) backTo(g *group, to string) string {
	switch to {
	case "", "start":
		return m.rollout.start
	case "previous":
		return g.previous
	}
	return to
}

// rollBackAll is a rollback that names no group: those that have started go back, and
// the others do not start.
func (m *model) rollBackAll(to string) {
	for _, g := range m.rollout.groups {
		switch {
		case g.state == unstarted && g.halted == "":
			m.halt(g, "rollout_rolled_back")
		case g.state != unstarted && g.state != rolledback:
			g.halted, g.state, g.back, g.stopped = "", rolledback, m.backTo(g, to), m.now
		}
	}
}

// order carries out what a person orders of one group. The engine has accepted it.
func (m *model) order(verb, to string, g *group, members []*knownHost, force bool, pick picker) {
	switch verb {
	case "start":
		g.halted, g.doneAt = "", time.Time{}
		if g.state == canary {
			m.activate(g, m.count(g, members), pick)
		} else {
			m.start(g, m.count(g, members), pick, !force && g.want.canaries > 0)
		}
		if !m.rollout.byOrder() {
			g.windowEnd = m.now.Add(m.rollout.window)
		}
	case "done":
		g.halted, g.state, g.doneAt = "", done, m.now
		if begin, open := g.want.opened(m.now, m.rollout.window); open && m.rollout.timeBased {
			g.windowEnd = begin.Add(m.rollout.window) // today's window is over, too
		}
	case "back":
		g.halted, g.state, g.back, g.stopped = "", rolledback, m.backTo(g, to), m.now
	case "retry":
		m.retry(g, m.count(g, members), pick)
	}
}

// retry begins another trial: the group starts again with the hosts that are there. One
// that has not started waits for its turn again.
func (m *model) retry(g *group, n tally, pick picker) {
	g.halted, g.retried = "", m.now
	if g.state == unstarted {
		return
	}
	m.start(g, n, pick, g.want.canaries > 0)
}

// reset makes the rollout what it was at its beginning.
func (m *model) reset() {
	m.rollout.since = m.now
	for _, g := range m.rollout.groups {
		*g = group{want: g.want, state: unstarted, index: -1}
	}
}
