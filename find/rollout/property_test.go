package rollout

import (
	"cmp"
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
	total := number(t, "ROLLOUT_HISTORIES", 10_000)
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
	for _, what := range []string{"an index grew", "an index of several hosts grew", "a halted group was asked", "a closed window was asked", "counts were not complete"} {
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
	h.fleet.byID[ParseHostID(host.ID)] = host
}

func (h *history) log(format string, args ...any) {
	h.steps = append(h.steps, h.now.Format("Mon 15:04:05 ")+fmt.Sprintf(format, args...))
}

// run returns what does not hold, with all that led to it.
func (h *history) run() (problem string) {
	dead := 0 // steps for which the engine is
	for range 30 {
		h.pass()
		h.hosts()
		h.people()
		if problem = h.ask(); problem == "" && dead == 0 {
			problem = h.tick()
		}
		if problem == "" {
			problem = h.ask()
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
		h.join(fmt.Sprint(len(h.fleet.hosts)))
	}
	quiet := h.IntN(6) == 0
	s := NewSnapshot(h.config, h.version, h.rollout, h.plans)
	for _, host := range h.fleet.hosts {
		if quiet && h.IntN(2) == 0 || h.IntN(40) == 0 {
			continue
		}
		answer := s.Find(Query{Group: host.Group, Host: host.ID, UpdaterID: host.UpdaterID}, h.now)
		b := Heartbeat{HostID: host.ID, Hostname: host.Hostname, Group: host.Group, Version: host.Version, Pinned: host.Pinned, Disabled: host.Disabled}
		if h.IntN(200) == 0 {
			b.Pinned = !b.Pinned
		}
		b.Unhealthy = h.IntN(60) == 0
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

// people change what they want, now and then.
func (h *history) people() {
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
	}
}

func (h *history) order() {
	if h.rollout == nil {
		return
	}
	o := Order{Verb: []Verb{StartUpdate, StartUpdate, MarkDone, Rollback, Retry, Retry, Retry, Reset}[h.IntN(8)], Force: h.IntN(2) == 0}
	if h.IntN(4) > 0 {
		o.Groups = []string{groupNames[h.IntN(len(groupNames))]}
	}
	result, err := o.Apply(h.config, h.version, h.rollout, h.counts(), h.now)
	if err != nil {
		return
	}
	h.log("%s %q, force %v", o.Verb, o.Groups, o.Force)
	h.keep(result)
	h.last = make(map[string]map[string]bool)
}

func (h *history) counts() Counts {
	return Count(h.rollout, h.fleet, h.plans, CountOptions{Complete: h.complete, Now: h.now})
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
	h.rollout = result.Rollout
}

// tick is one of the engine, and what must hold of it.
func (h *history) tick() string {
	for again := 0; ; again++ {
		var n Counts
		if h.rollout != nil {
			n = h.counts()
		}
		before := h.rollout
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

// check compares a rollout with the one before.
func (h *history) check(before *Rollout, result Result) string {
	after := result.Rollout
	manual := func(r Reason) bool { return len(r) > 6 && r[:6] == "manual" }
	for i := range after.Status.Groups {
		a, b := &after.Status.Groups[i], &before.Status.Groups[i]
		if b.Halted != nil && (a.Halted == nil || a.State != b.State) {
			return fmt.Sprintf("group %s is not halted any more", a.Name)
		}
		if a.Halted != nil && manual(a.Halted.Reason) {
			return "a person has halted it"
		}
		if a.State != b.State {
			if EffectiveMode(h.config, h.version) != Enabled {
				return fmt.Sprintf("group %s went on although updates are not enabled", a.Name)
			}
			if !h.complete && a.LastUpdateReason != WindowClosed {
				return fmt.Sprintf("group %s went on to %s on counts that are not complete", a.Name, a.State)
			}
			if !forward(b.State, a.State, after.Spec.Strategy) {
				return fmt.Sprintf("group %s went from %s to %s", a.Name, b.State, a.State)
			}
		}
		if b.State == Unstarted && a.State != Unstarted {
			if problem := h.mayHaveStarted(after, i); problem != "" {
				return problem
			}
		}
		if problem := h.index(a, b); problem != "" {
			return problem
		}
	}
	return ""
}

func forward(from, to State, strategy Strategy) bool {
	order := []State{Unstarted, Canarying, Active, Done}
	if strategy == TimeBased && from == Done && to == Active {
		return true
	}
	i, j := slices.Index(order, from), slices.Index(order, to)
	return i >= 0 && j > i
}

// mayHaveStarted looks at the groups before, and the hour.
func (h *history) mayHaveStarted(r *Rollout, i int) string {
	g := &r.Status.Groups[i]
	if !r.Spec.AnyHour {
		length := time.Hour
		if r.Spec.Strategy == TimeBased {
			length = time.Duration(r.Spec.Window)
		}
		inside := false
		for t := h.now.Add(-length); !t.After(h.now); t = t.Add(time.Minute) {
			begins := t.Truncate(time.Hour)
			if begins.Hour() == g.ConfigStartHour && (slices.Contains(g.ConfigDays, EveryDay) || slices.Contains(g.ConfigDays, Day(begins.Format("Mon")))) && h.now.Sub(begins) < length {
				inside = true
			}
		}
		if !inside {
			return fmt.Sprintf("group %s started outside of its hours", g.Name)
		}
	}
	if r.Spec.Strategy == TimeBased {
		return ""
	}
	explicit := slices.ContainsFunc(r.Status.Groups, func(g GroupStatus) bool { return len(g.ConfigRequires) > 0 })
	var look func(i int, first bool) string
	look = func(i int, first bool) string {
		of := &r.Status.Groups[i]
		if !first && (of.State != Done || of.Halted != nil) {
			return fmt.Sprintf("group %s started before %s was done", g.Name, of.Name)
		}
		if !first && !r.Spec.AnyHour && h.now.Before(of.DoneTime.Add(time.Duration(g.ConfigWaitHours)*time.Hour)) {
			return fmt.Sprintf("group %s did not wait for %d hours after %s", g.Name, g.ConfigWaitHours, of.Name)
		}
		if !explicit {
			if i == 0 {
				return ""
			}
			return look(i-1, false)
		}
		for _, name := range of.ConfigRequires {
			if problem := look(r.group(name), false); problem != "" {
				return problem
			}
		}
		return ""
	}
	return look(i, true)
}

// index counts who is in flight by itself.
func (h *history) index(a, b *GroupStatus) string {
	if a.Plan == nil || b.Plan == nil || !a.Plan.StartTime.Equal(b.Plan.StartTime) {
		return ""
	}
	from, to := b.Plan.LastActiveHostIndex, a.Plan.LastActiveHostIndex
	switch {
	case to < from:
		return fmt.Sprintf("the index of %s went back from %d to %d", a.Name, from, to)
	case to == from:
		return ""
	case a.Halted != nil:
		return fmt.Sprintf("the index of %s grew although it is halted", a.Name)
	case h.now.Sub(b.Plan.IndexTime) < 10*time.Second:
		return fmt.Sprintf("the index of %s was written twice in ten seconds", a.Name)
	case !h.complete:
		return fmt.Sprintf("the index of %s grew on counts that are not complete", a.Name)
	}
	h.covered["an index grew"] = true
	limit := a.ConfigMaxInFlight.N
	if a.ConfigMaxInFlight.Percent {
		limit = limit * a.Plan.HostCount / 100
		if limit == 0 && a.ConfigMaxInFlight.N > 0 {
			limit = 1
		}
	}
	if limit > 1 {
		h.covered["an index of several hosts grew"] = true
	}
	flying, admitted := 0, make(map[HostID]bool)
	target := h.rollout.Spec.TargetVersion
	for place := range to + 1 {
		id := h.plans[a.Name].ID(place)
		host := h.fleet.byID[id]
		admitted[id] = true
		told := host.Told.Target == target && !host.Told.At.Before(a.StartTime)
		begun := host.Begun.Target == target && !host.Begun.At.Before(a.StartTime)
		quiet := h.now.Sub(host.LastSeen)
		switch {
		case host.Version == target:
		case host.Failed.Target == target && !host.Failed.At.Before(a.StartTime):
		case host.Pinned:
		case told && h.now.Sub(host.Told.At) >= time.Duration(given(a.ConfigTimeoutSeconds, 3600)+given(a.ConfigJitterSeconds, 0))*time.Second:
		case begun && quiet > max(20*time.Minute, time.Duration(given(a.ConfigFailureSeconds, 0))*time.Second):
		case !told && !begun && quiet > 25*time.Minute && place <= from: // silent, and gone
		default:
			flying++
		}
	}
	if flying > limit {
		return fmt.Sprintf("%d hosts of %s are in flight, of %d at most", flying, a.Name, limit)
	}
	return ""
}

// ask has everybody ask at once, and says what is wrong with the answers.
func (h *history) ask() string {
	s := NewSnapshot(h.config, h.version, h.rollout, h.plans)
	mode := EffectiveMode(h.config, h.version)
	yes := make(map[string]map[string]bool) // by group
	for _, host := range h.fleet.hosts {
		q := Query{Group: host.Group, Host: host.ID, UpdaterID: host.UpdaterID}
		a := s.Find(q, h.now)
		if h.IntN(8) == 0 && s.Find(q, h.now) != a {
			return "the same question has two answers"
		}
		wanted := h.version.Spec.Agents
		if a.Version != wanted.TargetVersion && a.Version != cmp.Or(wanted.StartVersion, wanted.TargetVersion) {
			return fmt.Sprintf("host %s is told %s, which is neither the start nor the target", host.Hostname, a.Version)
		}
		if a.AutoUpdate && mode != Enabled {
			return fmt.Sprintf("host %s is told to update while updates are %s", host.Hostname, mode)
		}
		if a.AutoUpdate && a.Group >= 0 {
			name := s.Rollout().Status.Groups[a.Group].Name
			if yes[name] == nil {
				yes[name] = make(map[string]bool)
			}
			yes[name][host.ID] = true
		}
	}
	if h.rollout == nil || !h.rollout.Of(h.version) {
		h.last = make(map[string]map[string]bool)
		if h.version.Spec.Agents.Schedule != Immediate && len(yes) > 0 {
			return "hosts are told to update to a version whose rollout has not begun"
		}
		return ""
	}
	for i := range h.rollout.Status.Groups {
		g := &h.rollout.Status.Groups[i]
		if h.rollout.Spec.Strategy == TimeBased && g.State == Active && !g.WindowEnd.IsZero() && !h.now.Before(g.WindowEnd) {
			h.covered["a closed window was asked"] = true
			if len(yes[g.Name]) > 0 {
				return fmt.Sprintf("hosts of %s are told to update after its window", g.Name)
			}
		}
		if g.Halted == nil {
			delete(h.last, g.Name)
			continue
		}
		h.covered["a halted group was asked"] = true
		if g.Halted.Reason != Expired && len(yes[g.Name]) > 0 {
			return fmt.Sprintf("hosts of %s are told to update although it is halted", g.Name)
		}
		if before, ok := h.last[g.Name]; ok && mode == Enabled {
			for id := range yes[g.Name] {
				if !before[id] && len(before) > 0 {
					return fmt.Sprintf("halted group %s admits %s", g.Name, id)
				}
			}
		}
		if _, ok := h.last[g.Name]; !ok && mode == Enabled {
			h.last[g.Name] = maps.Clone(yes[g.Name])
		}
	}
	return ""
}
