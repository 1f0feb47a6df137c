package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// conduct is what a host does at its poll, which has told it something. It edits the
// report; false: the host does not report at all.
type conduct func(h *Host, a Answer, b *Heartbeat, since time.Duration) bool

func wants(h *Host, a Answer) bool { return a.AutoUpdate && a.Version != h.Version }

// started is how long after its beginning a rollout of the table has a group on its way.
const started = 2 * time.Hour

var conducts = map[string]conduct{
	"updates": func(h *Host, a Answer, b *Heartbeat, _ time.Duration) bool {
		if wants(h, a) {
			b.Version = a.Version
		}
		return true
	},
	"fails": func(h *Host, a Answer, b *Heartbeat, _ time.Duration) bool {
		if wants(h, a) && h.Failed.Target != a.Version {
			b.Outcome = &Outcome{Target: a.Version, State: OutcomeFailed, Error: "it fails", Time: h.LastSeen}
		}
		return true
	},
	"is told and does nothing":    func(*Host, Answer, *Heartbeat, time.Duration) bool { return true },
	"never says that it was told": func(_ *Host, _ Answer, b *Heartbeat, _ time.Duration) bool { b.Told = ""; return true },
	"begins and never says so":    func(h *Host, a Answer, b *Heartbeat, _ time.Duration) bool { return begins(h, a, b) },
	"is lost when it is told":     func(h *Host, a Answer, _ *Heartbeat, _ time.Duration) bool { return !wants(h, a) },
	"is lost before it is told":   func(_ *Host, _ Answer, _ *Heartbeat, since time.Duration) bool { return since < started-time.Minute },
	"is pinned when it is told": func(h *Host, a Answer, b *Heartbeat, _ time.Duration) bool {
		b.Pinned = h.Pinned || wants(h, a)
		return true
	},
	"is disabled when it is told": func(h *Host, a Answer, b *Heartbeat, _ time.Duration) bool {
		b.Disabled = h.Disabled || wants(h, a)
		return true
	},
	"names another group when told": func(h *Host, a Answer, b *Heartbeat, _ time.Duration) bool {
		if wants(h, a) {
			b.Group = "elsewhere"
		}
		return true
	},
	"has an agent that is down": func(_ *Host, _ Answer, b *Heartbeat, _ time.Duration) bool {
		b.Unhealthy, b.Told = true, ""
		return true
	},
	"updates and goes back": func(h *Host, a Answer, b *Heartbeat, since time.Duration) bool {
		if wants(h, a) && h.Told.Target == "" {
			b.Version = a.Version
		} else if since > started+6*time.Hour {
			b.Version = "17.2.0"
		}
		return true
	},
	"updates and leaves": func(h *Host, a Answer, b *Heartbeat, _ time.Duration) bool {
		if h.Version == "17.2.1" {
			return false
		}
		return conducts2(h, a, b)
	},
}

func conducts2(h *Host, a Answer, b *Heartbeat) bool {
	if wants(h, a) {
		b.Version = a.Version
	}
	return true
}

func begins(h *Host, a Answer, b *Heartbeat) bool {
	if b.Told = ""; wants(h, a) {
		b.Outcome = &Outcome{Target: a.Version, State: OutcomeStarted, Time: h.LastSeen}
	}
	return true
}

// play is a rollout of the table for some days.
type play struct {
	*world
	begun time.Time
	does  map[HostID]conduct
	grows bool
}

// during lets hosts poll and the engine tick.
func (p *play) during(d time.Duration) {
	for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(20 * time.Minute) {
		s := p.snapshot()
		for _, h := range p.fleet.hosts {
			a := s.Find(Query{Group: h.Group, Host: h.ID.String()}, p.now)
			b := Heartbeat{HostID: h.ID.String(), Hostname: h.Hostname, Group: h.Group, Version: h.Version, Pinned: h.Pinned, Disabled: h.Disabled}
			if a.AutoUpdate {
				b.Told = a.Version
			}
			if p.does[h.ID](h, a, &b, p.now.Sub(p.begun)) {
				h.Take(b, p.now)
			}
		}
		if p.grows && p.now.Sub(p.begun) == started+time.Hour {
			for i := range 8 {
				p.does[p.join(fmt.Sprintf("new-%d", i), "a", "17.2.0").ID] = conducts["updates"]
			}
		}
		p.step()
	}
}

// step is a tick whose result is kept as it is: the form in which it is written is
// for other tests.
func (p *play) step() {
	var n Counts
	if p.rollout != nil {
		n = p.counts()
	}
	result := Next(p.config, p.version, p.rollout, n, p.now)
	p.rollout = result.Rollout
	for _, plan := range result.Plans {
		p.plans[plan.Group], _ = NewIndex(plan.Hosts)
	}
}

// stuck is a group that nothing leads out of: no time, no host and no command. It
// returns why, and "" for none.
func (p *play) stuck() string {
	starts := Preview(p.config, p.version, p.rollout, p.now)
	helped := false
	for i := range p.rollout.Status.Groups {
		g := &p.rollout.Status.Groups[i]
		needsHelp := g.Halted != nil || len(g.Conditions) > 0
		helped = helped || needsHelp
		switch {
		case needsHelp, g.State == Done, g.State == Active && g.WindowEnd.After(p.now):
		case g.State == Unstarted && helped && p.rollout.Spec.Strategy == HaltOnError: // it is behind the other
		case g.State == Unstarted && starts[i].Waits == "" && starts[i].At.After(p.now):
		default:
			return fmt.Sprintf("group %s is %s, and nothing leads out of it", g.Name, g.State)
		}
	}
	look := Look(p.scene())
	if helped && !slices.ContainsFunc(look.Commands, func(c Choice) bool { return c.Group != "" }) {
		return fmt.Sprintf("%s: %s, and no command is named for the group: %s", look.Word, look.Sentence, said(look.Commands))
	}
	return p.refusedCommand(look.Commands)
}

// refusedCommand is one that is named, and refused or without effect.
func (p *play) refusedCommand(choices []Choice) string {
	for _, c := range choices {
		if c.Verb == "" {
			continue
		}
		result, err := c.order().Apply(p.config, p.version, p.rollout, p.counts(), p.now)
		if err != nil {
			return fmt.Sprintf("status names %q, and the server refuses it: %v", c.Command, err)
		}
		if len(result.Steps) == 0 || result.Rollout == p.rollout {
			return fmt.Sprintf("status names %q, which does nothing", c.Command)
		}
	}
	return ""
}

// Every strategy, schedule and plan comes to an end with whatever hosts do: in every
// state that a rollout is in for long, time or hosts lead out of it, or a condition or
// a halt names a command that is not refused.
func TestEveryRolloutHasAWayOut(t *testing.T) {
	seen := make(map[string]int)
	number := 0
	for _, strategy := range []Strategy{HaltOnError, TimeBased} {
		for _, schedule := range []string{"regular", "critical of its own", "critical at any hour"} {
			for _, plan := range []string{"", ", max_in_flight: 100%", ", max_in_flight: 25%", ", max_in_flight: 1, max_failed_before_halt: 40%", ", max_in_flight: 0",
				", timeout_seconds: 600", ", max_timeout_before_halt: 30%"} {
				for _, canaries := range []int{0, 2} {
					if canaries > 0 && strategy == TimeBased {
						continue
					}
					for does := range conducts {
						if schedule == "critical of its own" && does != "updates" && does != "fails" {
							continue // it is regular in all but its groups
						}
						for _, bad := range []int{1, 8} {
							if number++; testing.Short() && number%17 != 0 {
								continue
							}
							tryWayOut(t, seen, strategy, schedule, fmt.Sprintf("%s, canary_count: %d", plan, canaries), does, bad)
						}
					}
				}
			}
		}
	}
	for _, end := range []string{"done", "over", "halted", "stalled"} {
		if seen[end] == 0 && !testing.Short() {
			t.Errorf("no rollout of the table ends as %s: %v", end, seen)
		}
	}
}

func tryWayOut(t *testing.T, seen map[string]int, strategy Strategy, schedule, more, does string, bad int) {
	if strategy == TimeBased {
		more = strings.ReplaceAll(more, ", canary_count: 0", "")
	}
	groups := "[{name: a, days: ['*'], start_hour: 2" + more + "}, {name: b, days: ['*'], start_hour: 12" + more + "}]"
	schedules := "schedules: {regular: " + groups + "}"
	if schedule == "critical of its own" {
		schedules = "schedules: {critical: " + groups + "}"
	}
	p := &play{world: newWorld(t, "strategy: "+string(strategy)+", "+schedules), does: make(map[HostID]conduct), grows: bad == 1}
	p.begun = p.now
	if schedule != "regular" {
		p.version.Spec.Agents.Schedule = Critical
	}
	for i := range 8 {
		h := p.join(fmt.Sprintf("a-%d", i), "a", "17.2.0")
		if p.does[h.ID] = conducts["updates"]; i < bad {
			p.does[h.ID] = conducts[does]
		}
	}
	for i := range 2 {
		p.does[p.join(fmt.Sprintf("b-%d", i), "b", "17.2.0").ID] = conducts["updates"]
	}
	p.during(3 * 24 * time.Hour)
	seen[string(Look(p.scene()).Word)]++
	if problem := p.stuck(); problem != "" {
		t.Errorf("%s, %s%s, %d of 8 hosts: %s\n\tafter 3 days: %s\n\t%s", strategy, schedule, more, bad, does, p.states(), problem)
	}
}
