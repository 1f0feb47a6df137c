package rollout

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Random configurations, fleets and histories: what must hold of every one of them.
// ROLLOUT_SEED repeats a run, ROLLOUT_HISTORIES sets how many histories it has, and
// ROLLOUT_HISTORY picks one.
func TestWhatHoldsOfEveryHistory(t *testing.T) {
	seed := number(t, "ROLLOUT_SEED", rand.Uint64())
	usual := uint64(10_000)
	if testing.Short() {
		usual = 200 // too few to be asked below what they came to
	}
	total := number(t, "ROLLOUT_HISTORIES", usual)
	from, to := uint64(0), total
	if one := os.Getenv("ROLLOUT_HISTORY"); one != "" {
		from = number(t, "ROLLOUT_HISTORY", 0)
		to = from + 1
	}
	t.Logf("ROLLOUT_SEED=%d", seed)
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // histories are many, and small
	var next, seen atomic.Uint64
	next.Store(from)
	var covered sync.Map
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= to || t.Failed() {
					return
				}
				h := newHistory(seed, i)
				if problem := h.run(); problem != "" {
					t.Errorf("ROLLOUT_SEED=%d ROLLOUT_HISTORY=%d: %s", seed, i, problem)
				}
				for what := range h.covered {
					covered.Store(what, true)
				}
				seen.Add(1)
			}
		})
	}
	workers.Wait()
	if to-from < 1000 || t.Failed() {
		return
	}
	// Histories in which nothing happens show nothing.
	for _, reason := range []Reason{InWindow, CanariesDone, UpdateComplete, NoHosts, WindowClosed, CanaryFailed, CanaryTimedOut, HostsFailed, HostsTimedOut, Expired,
		ManualStart, ManualForced, ManualDone, ManualRollback, ManualRetry, RolloutRollback} {
		if _, ok := covered.Load(string(reason)); !ok {
			t.Errorf("in %d histories no group came to %s", seen.Load(), reason)
		}
	}
	for _, what := range []string{"an index grew", "an index of several hosts grew", "an index grew while agents were down", "a halted group was asked",
		"a closed window was asked", "counts were not complete", "a host was forgotten", "a host named another group", "told before a trial", "a group that was rolled back was asked", "the engine was paused",
		"the store was replaced", "an order to a host held", "an order to a host ended by itself", "an order to a host was refused", "a command was advised", "a command was advised on counts that are not complete"} {
		if _, ok := covered.Load(what); !ok {
			t.Errorf("in %d histories never: %s", seen.Load(), what)
		}
	}
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// history is a fleet with a server, told step by step.
type history struct {
	*rand.Rand
	config   *Config
	version  *Version
	rollout  *Rollout
	plans    map[string]*Index
	fleet    *fleet
	now      time.Time
	complete bool
	last     map[string]map[string]bool // of each halted group, who was told to update when it was halted
	covered  map[string]bool
	steps    []string
	joined   int
	promised map[string]time.Time // when a group starts at the earliest
	copied   *copied
	orders   hostOrders
}

// copied is a copy of the store, which holds no hosts here: what they say comes again with their next reports.
type copied struct {
	rollout *Rollout
	plans   map[string]*Index
	orders  hostOrders
}

func newHistory(seed, i uint64) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, i)), version: versionWith(Enabled, Regular), plans: make(map[string]*Index),
		fleet: &fleet{byID: make(map[HostID]*Host)}, complete: true, last: make(map[string]map[string]bool), covered: make(map[string]bool)}
	h.now = monday.Add(time.Duration(h.IntN(7*24*60)) * time.Minute)
	h.configure()
	for i := range h.IntN(16) {
		h.join(fmt.Sprint(i))
	}
	return h
}

var groupNames = []string{"a", "b", "c", "d"}

// configure sets a configuration that is valid.
func (h *history) configure() {
	for {
		c := configWith(Enabled)
		agents := &c.Spec.Agents
		if h.IntN(3) == 0 {
			agents.Strategy, agents.Window = TimeBased, Duration(time.Duration(1+h.IntN(24))*time.Hour)
		}
		if h.IntN(4) == 0 {
			agents.Unmatched = Hold
		}
		for _, name := range groupNames[:1+h.IntN(len(groupNames))] {
			agents.Schedules.Regular = append(agents.Schedules.Regular, h.newGroup(name, agents.Strategy, agents.Schedules.Regular))
		}
		if c.Check() == nil {
			h.config = c
			return
		}
	}
}

func (h *history) newGroup(name string, strategy Strategy, before []Group) Group {
	g := Group{Name: name, StartHour: hour(h.IntN(24)), Days: []Day{EveryDay}}
	if h.IntN(3) == 0 {
		g.Days = []Day{week[h.IntN(7)]}
	}
	maybe := func(n int) *int {
		if h.IntN(3) > 0 {
			return nil
		}
		return &n
	}
	if strategy != TimeBased {
		g.WaitHours = max(0, h.IntN(20)-10)
		g.CanaryCount = max(0, h.IntN(5)-2)
		if len(before) > 0 && h.IntN(4) == 0 {
			g.Requires = []string{before[h.IntN(len(before))].Name}
		}
	}
	g.JitterSeconds, g.TimeoutSeconds, g.FailureSeconds = maybe(h.IntN(600)), maybe(30+h.IntN(4000)), maybe(h.IntN(3000))
	if h.IntN(2) == 0 {
		g.MaxInFlight = &Share{h.IntN(6), false}
		if h.IntN(2) == 0 {
			g.MaxInFlight = &Share{h.IntN(101), true}
		}
	}
	if n := maybe(h.IntN(60)); n != nil {
		g.MaxFailedBeforeHalt = (*Percent)(n)
	}
	if n := maybe(h.IntN(40)); n != nil {
		g.MaxTimeoutBeforeHalt = (*Percent)(n)
	}
	return g
}

func (h *history) join(name string) {
	group := groupNames[h.IntN(len(groupNames))]
	if h.IntN(15) == 0 {
		group = []string{"", "typo"}[h.IntN(2)]
	}
	host := new(Host)
	host.Take(Heartbeat{HostID: hostID(name), UpdaterID: "u" + name, Hostname: name, Group: group, Version: "17.2.0"}, h.now.Add(-time.Minute))
	h.fleet.hosts = append(h.fleet.hosts, host)
	h.fleet.byID[host.ID] = host
}

func (h *history) log(format string, args ...any) {
	h.steps = append(h.steps, h.now.Format("Mon 15:04:05 ")+fmt.Sprintf(format, args...))
}

// run returns which property is broken, with all that led to it.
func (h *history) run() (problem string) {
	dead := 0 // steps for which the engine is
	for range 30 {
		h.pass()
		h.hosts()
		problem = h.people()
		h.replace()
		if problem == "" {
			problem = h.ask()
		}
		if problem == "" && dead == 0 {
			problem = h.tick()
		}
		if problem == "" {
			problem = h.ask()
		}
		if problem == "" {
			problem = h.commands()
		}
		if problem != "" {
			text := problem
			for _, s := range h.steps {
				text += "\n\t" + s
			}
			data, _ := YAML(h.config)
			return text + "\n" + string(data)
		}
		dead = max(0, dead-1)
		if h.IntN(20) == 0 {
			dead = h.IntN(10)
			h.covered["the engine was paused"] = true
		}
		h.complete = h.IntN(10) > 0
		if !h.complete {
			h.covered["counts were not complete"] = true
		}
	}
	return ""
}

func (h *history) pass() {
	h.now = h.now.Add([]time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, 10 * time.Minute, 20 * time.Minute, time.Hour, 5 * time.Hour}[h.IntN(8)])
}

// hosts has most hosts ask and report, and do what they are told, or not.
func (h *history) hosts() {
	if h.IntN(12) == 0 {
		h.joined++
		h.join(fmt.Sprint("late ", h.joined))
	}
	h.lose()
	quiet := h.IntN(6) == 0
	s := h.snapshot()
	for _, host := range h.fleet.hosts {
		if quiet && h.IntN(2) == 0 || h.IntN(40) == 0 {
			continue
		}
		answer := s.Find(Query{Group: host.Group, Host: host.ID.String(), UpdaterID: host.UpdaterID.String()}, h.now)
		b := Heartbeat{HostID: host.ID.String(), Hostname: host.Hostname, Group: host.Group, Version: host.Version, Pinned: host.Pinned, Disabled: host.Disabled}
		if h.IntN(200) == 0 {
			b.Pinned = !b.Pinned
		}
		b.Unhealthy = h.IntN(60) == 0
		if h.IntN(200) == 0 {
			b.Group = groupNames[h.IntN(len(groupNames))]
			h.covered["a host named another group"] = h.covered["a host named another group"] || b.Group != host.Group
		}
		if answer.AutoUpdate {
			b.Told = answer.Version
		}
		if answer.AutoUpdate && answer.Version != host.Version {
			b.Outcome = &Outcome{Target: answer.Version, State: OutcomeStarted, Time: h.now}
			switch h.IntN(12) {
			case 0:
				b.Outcome.State, b.Outcome.Error = OutcomeRolledBack, "it died"
				h.log("%s of %s failed with %s", host.Hostname, host.Group, answer.Version)
			case 1, 2:
				b.Outcome = nil
			case 3:
			default:
				b.Outcome.State, b.Version = OutcomeSucceeded, answer.Version
			}
		}
		host.Take(b, h.now)
	}
}

// lose has the store forget a host, now and then: it does not report again, or joins
// as if it were new.
func (h *history) lose() {
	if len(h.fleet.hosts) == 0 || h.IntN(60) > 0 {
		return
	}
	at := h.IntN(len(h.fleet.hosts))
	host := h.fleet.hosts[at]
	h.log("%s of %s is forgotten", host.Hostname, host.Group)
	h.covered["a host was forgotten"] = true
	h.fleet.hosts = slices.Delete(h.fleet.hosts, at, at+1)
	delete(h.fleet.byID, host.ID)
	if h.IntN(2) == 0 {
		again := new(Host)
		again.Take(Heartbeat{HostID: host.ID.String(), Hostname: host.Hostname, Group: host.Group, Version: host.Version, Told: host.Told.Target}, h.now)
		h.fleet.hosts = append(h.fleet.hosts, again)
		h.fleet.byID[again.ID] = again
	}
}

// replace puts an older copy in the place of the store, now and then: the rollout is what it was, and hosts have gone on.
func (h *history) replace() {
	switch {
	case h.rollout == nil || h.IntN(25) > 0:
	case h.copied == nil:
		h.copied = &copied{h.rollout, maps.Clone(h.plans), h.orders.clone()}
	default:
		h.rollout, h.plans, h.orders, h.copied = h.copied.rollout, h.copied.plans, h.copied.orders, nil
		h.log("the store is replaced by an older copy")
		h.covered["the store was replaced"] = true
		h.promised, h.last = make(map[string]time.Time), make(map[string]map[string]bool)
	}
}

// commands reports a command that people are told to move a group by, and that would be refused.
func (h *history) commands() string {
	if h.rollout == nil || h.IntN(4) > 0 {
		return ""
	}
	s := Scene{Config: h.config, Version: h.version, Rollout: h.rollout, Counts: h.counts(), CompleteAt: h.now.Add(time.Minute), Now: h.now}
	o := Survey(s)
	choices := o.Commands
	for _, g := range o.Groups {
		choices = append(choices, g.Orders...)
	}
	for _, c := range choices {
		if c.Verb == "" {
			continue
		}
		if _, err := c.order().Apply(h.config, h.version, h.rollout, s.Counts, h.now); err != nil {
			return fmt.Sprintf("people are told %q, and it is refused: %v", c.Command, err)
		}
		h.covered["a command was advised"] = true
		if !h.complete {
			h.covered["a command was advised on counts that are not complete"] = true
		}
	}
	return ""
}

// people change what they want, now and then.
func (h *history) people() (problem string) {
	switch h.IntN(60) {
	case 0, 1:
		h.config.Spec.Agents.Mode = []Mode{Enabled, Suspended, Disabled, ""}[h.IntN(4)]
		h.log("config mode %s", h.config.Spec.Agents.Mode)
	case 2:
		h.version.Spec.Agents.Mode = []Mode{Enabled, Enabled, Suspended, Disabled}[h.IntN(4)]
		h.log("version mode %s", h.version.Spec.Agents.Mode)
	case 3, 4, 5, 6, 7:
		h.config.Spec.Agents.Mode, h.version.Spec.Agents.Mode = Enabled, ""
		h.log("enable")
	case 8:
		agents := &h.version.Spec.Agents
		agents.StartVersion, agents.TargetVersion = agents.TargetVersion, Semver(fmt.Sprintf("17.2.%d", 1+h.IntN(5)))
		agents.Schedule = []Schedule{Regular, Regular, Regular, Critical, Immediate}[h.IntN(5)]
		h.log("version %s", agents.TargetVersion)
	case 9:
		mode := h.config.Spec.Agents.Mode
		h.configure()
		h.config.Spec.Agents.Mode = mode
		h.log("another configuration")
	case 10, 11, 12, 13, 14, 15:
		h.order()
	case 16, 17, 18, 19, 20, 21, 22, 23:
		return h.hostOrder()
	}
	return ""
}

func (h *history) order() {
	if h.rollout == nil {
		return
	}
	o := Order{Verb: []Verb{StartUpdate, StartUpdate, MarkDone, Rollback, Retry, Retry, Retry, Reset}[h.IntN(8)], Force: h.IntN(2) == 0}
	if h.IntN(4) > 0 {
		o.Groups = []string{groupNames[h.IntN(len(groupNames))]}
	}
	if o.Verb == Rollback {
		o.To = []string{"", BackToStart, BackToPrevious, "17.1.9"}[h.IntN(4)]
	}
	result, err := o.Apply(h.config, h.version, h.rollout, h.counts(), h.now)
	if err != nil {
		return
	}
	h.log("%s %q, force %v", o.Verb, o.Groups, o.Force)
	h.promised = make(map[string]time.Time) // a person may bring any group forward
	h.keep(result)
	h.last = make(map[string]map[string]bool)
}

func (h *history) counts() Counts {
	return Count(h.rollout, h.fleet, h.plans, CountOptions{Complete: h.complete, Now: h.now, Overrides: h.orders.list})
}

func (h *history) snapshot() *Snapshot {
	return NewSnapshot(h.config, h.version, h.rollout, h.plans).With(h.orders.list)
}

func (h *history) keep(result Result) {
	for _, s := range result.Steps {
		h.covered[string(s.Reason)] = true
		h.log("%+v", s)
	}
	for _, p := range result.Plans {
		index, err := NewIndex(p.Hosts)
		if err != nil {
			panic(err)
		}
		h.plans[p.Group] = index
	}
	h.orders.follow(h.rollout, result, h.now)
	h.rollout = result.Rollout
}

// promise keeps what people are told of when groups start: the latest of what was told
// in a rollout.
func (h *history) promise() {
	if h.rollout == nil || !h.rollout.Of(h.version) {
		h.promised = make(map[string]time.Time)
		return
	}
	for _, start := range Preview(h.config, h.version, h.rollout, h.now) {
		if start.Waits == "" && (start.State == Unstarted || start.State == Done) && start.At.After(h.promised[start.Group]) {
			h.promised[start.Group] = start.At
		}
	}
}

// tick is one of the engine, and what must hold of it.
func (h *history) tick() string {
	for again := 0; ; again++ {
		var n Counts
		if h.rollout != nil {
			n = h.counts()
		}
		before := h.rollout
		h.promise()
		result := Next(h.config, h.version, before, n, h.now)
		if h.IntN(10) == 0 {
			if twice := Next(h.config, h.version, before, n, h.now); !reflect.DeepEqual(result, twice) {
				return "the same tick has another result"
			}
		}
		if before != nil && before.Of(h.version) {
			if problem := h.check(before, result); problem != "" {
				return problem
			}
		}
		h.keep(result)
		if result.Rollout == before {
			return ""
		}
		if reflect.DeepEqual(before, result.Rollout) {
			return "a tick without a change is written"
		}
		if again > 8 {
			return "ticks at one moment do not come to an end"
		}
	}
}
