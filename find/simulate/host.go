package simulate

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"teleport-update/find/rollout"
)

// host acts like an updater, as far as the server can see it.
type host struct {
	id, name, group string
	version         rollout.Semver
	lot             *rand.Rand // its own: the draws of one host change nothing for another
	at              time.Time  // of its next act
	act             func(*host, *world)

	target  rollout.Semver // of the update that it has begun or waits for
	outcome *rollout.Outcome
	attempt int       // of the version that failed
	retry   time.Time // when it may be tried again
	failed  rollout.Semver
	fails   bool
	lost    bool
	reports rollout.Host // the server's data about it
}

func newHost(s *Scenario, number int, group string, place int) *host {
	h := &host{name: fmt.Sprintf("%s-%d", nameOr(group), place+1), group: group, lot: rand.New(rand.NewPCG(s.Seed, uint64(number)))}
	h.id = fmt.Sprintf("%08x-0000-4000-8000-%012x", h.lot.Uint32(), number)
	h.fails, h.lost = h.lot.Float64() < rate(s.Fails, group), h.lot.Float64() < rate(s.Lost, group)
	h.act = (*host).poll
	return h
}

func nameOr(group string) string {
	if group == "" {
		return "host"
	}
	return group
}

func rate(rates map[string]float64, group string) float64 {
	if r, ok := rates[group]; ok {
		return r
	}
	return rates[""]
}

// within draws a time below a limit.
func (h *host) within(limit time.Duration) time.Duration {
	if limit < time.Second {
		return 0
	}
	return time.Duration(h.lot.Int64N(int64(limit/time.Second))) * time.Second
}

// report sends a heartbeat to the server.
func (h *host) report(w *world, answer rollout.Semver) {
	h.reports.Take(rollout.Heartbeat{HostID: h.id, Hostname: h.name, Group: h.group, Version: h.version, Told: answer, Outcome: h.outcome},
		w.now)
}

// poll is a tick of the updater's timer.
func (h *host) poll(w *world) {
	a := w.snapshot.Find(rollout.Query{Group: h.group, Host: h.id}, w.now)
	next := w.scenario.Poll + h.within(w.scenario.Spread)
	if !a.AutoUpdate || a.Version == h.version || a.Version == h.failed && w.now.Before(h.retry) {
		answer := rollout.Semver("")
		if a.AutoUpdate {
			answer = a.Version
		}
		h.report(w, answer)
		h.at = w.now.Add(next)
		return
	}
	h.report(w, a.Version)
	h.target = a.Version
	jitter := a.Jitter
	if jitter < 0 {
		jitter = w.scenario.Jitter
	}
	h.at, h.act = w.now.Add(h.within(jitter)), (*host).begin
}

func (h *host) begin(w *world) {
	h.outcome = &rollout.Outcome{Target: h.target, State: rollout.OutcomeStarted, Time: w.now}
	h.report(w, h.target)
	if h.lost {
		h.at = time.Time{} // it is never heard of again
		w.say(h.group, fmt.Sprintf("%s begins to update and is lost", h.name))
		return
	}
	h.at, h.act = w.now.Add(max(time.Second, w.scenario.Update/2+h.within(w.scenario.Update))), (*host).end
}

const (
	firstRetry = time.Hour
	lastRetry  = 14 * 24 * time.Hour
)

func (h *host) end(w *world) {
	h.outcome = &rollout.Outcome{Target: h.target, State: rollout.OutcomeSucceeded, Time: w.now}
	if h.fails && h.target == w.scenario.Version.Spec.Agents.TargetVersion {
		h.outcome.State, h.outcome.Error = rollout.OutcomeRolledBack, "the new version is not healthy (simulated)"
		if h.failed != h.target {
			h.failed, h.attempt = h.target, 0
		}
		h.retry = w.now.Add(min(firstRetry<<min(h.attempt, 10), lastRetry))
		h.attempt++
		w.say(h.group, fmt.Sprintf("%s rolls %s back", h.name, h.target))
	} else {
		h.version = h.target
	}
	h.report(w, "")
	h.at, h.act = w.now.Add(w.scenario.Poll+h.within(w.scenario.Spread)), (*host).poll
}

// fleet is the server's data about the hosts.
type fleet struct {
	hosts []*host
	byID  map[rollout.HostID]*host
}

func newFleet(s *Scenario, groups []string) *fleet {
	f := &fleet{byID: make(map[rollout.HostID]*host)}
	for _, group := range groups {
		for place := range s.Hosts[group] {
			h := newHost(s, len(f.hosts), group, place)
			h.version = s.Version.Spec.Agents.StartVersion
			f.hosts = append(f.hosts, h)
			f.byID[rollout.ParseHostID(h.id)] = h
		}
	}
	return f
}

// All implements rollout.Fleet.
func (f *fleet) All() iter.Seq[*rollout.Host] {
	return func(yield func(*rollout.Host) bool) {
		for _, h := range f.hosts {
			if !yield(&h.reports) {
				return
			}
		}
	}
}

// Host implements rollout.Fleet.
func (f *fleet) Host(id rollout.HostID) *rollout.Host {
	if h := f.byID[id]; h != nil {
		return &h.reports
	}
	return nil
}

// queue holds the hosts in the order of their next acts.
type queue []*host

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at.Before(q[j].at) || q[i].at.Equal(q[j].at) && q[i].id < q[j].id
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*host)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = slices.Delete(*q, len(*q)-1, len(*q))
	return last
}
