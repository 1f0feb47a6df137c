// Package rules holds a second model of the rules of rollouts. It was written from
// the description of the rules alone, shares no code with the engine, and is compared
// with the engine at each tick of random histories: versions, modes, orders, hosts
// that fail, hang, go away, come back or name another group.
//
// Draws of canaries and the order of plans are random by design. The model takes them
// over from the engine and checks only that the hosts may be drawn.
//
// The description was silent on these; engine and model hold them alike:
//
//   - Limits of a group without a plan are parts of the larger of the hosts that were
//     there at its start and those that are there now.
//   - A verdict stays: a host that failed counts, whether or not it is pinned, disabled
//     or in another group later. Being late does not count for such a host.
//   - A host that is not heard of in a trial was not told in it.
//   - A host that is away is missing for a day, whatever it last said of itself, and whatever order it has.
//   - An unhealthy host of a plan counts against the limit until it is in flight.
//   - A group without hosts ends with the hour of its window, or an hour after it was
//     started outside of one.
//   - Groups of the time-based strategy never wait for one another, a critical version
//     included. mark-done ends the day's window, too.
//   - A retry starts the group again, canaries first, with the hosts that are there.
//   - A group without limits is halted once so many hosts failed that too few are left for it to be done.
//   - While the counts are incomplete only a failure that was reported moves anything.
package rules

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// history is one run of engine and model beside each other.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	now   time.Time
	sheet sheet
	mode  string
	round int
	// complete is false while the server has not heard of its hosts for long enough.
	complete bool

	machines  []*machine
	polled    map[string]time.Time
	fleet     fleet
	config    *rollout.Config
	version   *rollout.Version
	rollout   *rollout.Rollout
	plans     map[string]*rollout.Index
	overrides rollout.Overrides
	ordered   map[rollout.HostAction]int // orders to hosts that were taken
	hosts     map[string][]string        // of plans, by group

	model   *model
	log     []string
	answers int
	began   [3]string // start, target, schedule of the rollout that the model follows
	wrong   string    // a draw of the engine that cannot be
	more    *rand.Rand
}

func TestASecondModelOfTheRulesAgreesWithTheEngine(t *testing.T) {
	// The same histories each time, so that a change is judged by what it changes. A
	// campaign, which says how many it wants, draws others each time.
	histories, seed := 1500, uint64(1)
	if testing.Short() {
		histories = 100
	}
	if s := os.Getenv("RULES_HISTORIES"); s != "" {
		histories, _ = strconv.Atoi(s)
		seed = uint64(time.Now().UnixNano())
	}
	if s := os.Getenv("RULES_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	ticks, answers, ordered := 0, 0, make(map[rollout.HostAction]int)
	for i := range histories {
		h := newHistory(t, seed+uint64(i))
		n, ok := h.run()
		ticks, answers = ticks+n, answers+h.answers
		for action, n := range h.ordered {
			ordered[action] += n
		}
		if !ok {
			t.Fatalf("RULES_SEED=%d RULES_HISTORIES=1 shows it", seed+uint64(i))
		}
	}
	for _, action := range []rollout.HostAction{rollout.UpdateHost, rollout.HoldHost, rollout.ReleaseHost} {
		if histories >= 100 && ordered[action] == 0 {
			t.Errorf("no order %q to a host was taken", action)
		}
	}
	t.Logf("second model: histories: %d, ticks: %d, answers: %d, differences: 0", histories, ticks, answers)
}

// Histories in which engine and model once differed: a guarded group that hosts fail in the instant in which a person
// orders it on.
func TestHistoriesThatOnceDifferedAgree(t *testing.T) {
	for _, seed := range []uint64{1795581302278437277} {
		if _, ok := newHistory(t, seed).run(); !ok {
			t.Errorf("RULES_SEED=%d RULES_HISTORIES=1 shows it", seed)
		}
	}
}

func newHistory(t *testing.T, seed uint64) *history {
	rng := rand.New(rand.NewPCG(seed, 0))
	h := &history{
		t: t, rng: rng, now: time.Date(2026, 3, 2+rng.IntN(7), rng.IntN(24), rng.IntN(60), 0, 0, time.UTC), sheet: draw(rng), mode: "enabled",
		polled: map[string]time.Time{}, ordered: map[rollout.HostAction]int{}, fleet: fleet{}, plans: map[string]*rollout.Index{}, hosts: map[string][]string{},
		model: &model{hosts: map[string]*knownHost{}, orders: map[string]*hostOrder{}}, more: rand.New(rand.NewPCG(seed, 1)),
	}
	for i := range rng.IntN(14) {
		m := &machine{id: fmt.Sprintf("%08x-0000-4000-8000-%012x", rng.Uint32(), i), version: "1.0.0"}
		m.group = h.sheet.groups[rng.IntN(len(h.sheet.groups))].name
		if rng.IntN(15) == 0 {
			m.group = "typo"
		}
		h.machines = append(h.machines, m)
	}
	h.apply("regular")
	return h
}

// apply writes the resources. A new version goes on from the target before.
func (h *history) apply(schedule string) {
	h.round++
	h.write(h.sheet.config(h.mode))
	h.write(version(fmt.Sprintf("1.%d.0", h.round-1), fmt.Sprintf("1.%d.0", h.round), schedule))
}

func (h *history) write(text string) {
	list, err := rollout.Parse([]byte(text))
	if err != nil {
		h.t.Fatalf("%v in\n%s", err, text)
	}
	for _, r := range list {
		switch r := r.(type) {
		case *rollout.Config:
			h.config = r
		case *rollout.Version:
			h.version = r
		}
	}
}

func (h *history) run() (ticks int, ok bool) {
	for range 300 {
		h.now = h.now.Add(h.pause())
		h.complete = h.sheet.timeBased || h.rng.IntN(15) != 0 // windows by the clock open and close without counts
		h.happen()
		h.poll()
		h.engine()
		h.follow()
		h.command()
		h.orderHost()
		ticks++
		if diff := h.compare(); diff != "" {
			h.t.Errorf("%s", h.explain(diff))
			return ticks, false
		}
	}
	return ticks, true
}

// pause is short while something goes on, and may be long else.
func (h *history) pause() time.Duration {
	if h.rng.IntN(12) == 0 {
		return time.Duration(1+h.rng.IntN(120)) * time.Minute
	}
	return time.Duration(1+h.rng.IntN(10)) * time.Minute
}

func (h *history) logf(format string, args ...any) {
	h.log = append(h.log, h.now.Format("Mon 15:04 ")+fmt.Sprintf(format, args...))
}

func (h *history) snapshot() *rollout.Snapshot {
	return rollout.NewSnapshot(h.config, h.version, h.rollout, h.plans).With(h.overrides)
}

// engine ticks until nothing changes.
func (h *history) engine() {
	for range 30 {
		res := rollout.Next(h.config, h.version, h.rollout, h.counts(), h.now)
		if res.Rollout == h.rollout {
			return
		}
		h.take(res)
	}
}

func (h *history) counts() rollout.Counts {
	if h.rollout == nil {
		return rollout.Counts{Complete: h.complete}
	}
	return rollout.Count(h.rollout, h.fleet, h.plans, rollout.CountOptions{Complete: h.complete, Now: h.now, Overrides: h.overrides})
}

// take keeps what the engine has come to, as a store does.
func (h *history) take(res rollout.Result) {
	for _, p := range res.Plans {
		index, err := rollout.NewIndex(p.Hosts)
		if err != nil {
			h.t.Fatal(err)
		}
		h.plans[p.Group] = index
		h.hosts[p.Group] = h.names(p.Hosts)
	}
	for _, s := range res.Steps {
		h.logf("engine: %s %s→%s halted=%v %s %s", s.Group, s.From, s.To, s.Halted, s.Reason, s.Message)
	}
	h.rollout = res.Rollout
}

func (h *history) names(ids []rollout.HostID) (list []string) {
	for _, id := range ids {
		i := slices.IndexFunc(h.machines, func(m *machine) bool { return rollout.ParseHostID(m.id) == id })
		list = append(list, h.machines[i].id)
	}
	return list
}

// follow lets the model do the same.
func (h *history) follow() {
	h.model.now, h.model.mode = h.now, h.mode
	a := h.version.Spec.Agents
	is := [3]string{string(a.StartVersion), string(a.TargetVersion), string(a.Schedule)}
	if is != h.began {
		h.began = is
		groups, anyHour := h.sheet.groups, is[2] == "critical"
		if anyHour && len(h.sheet.critical) > 0 {
			groups, anyHour = h.sheet.critical, false
		}
		h.model.begin(is[0], is[1], is[2], h.sheet.timeBased, h.sheet.window, h.sheet.hold, anyHour, groups)
	}
	h.model.tick(h.complete, h)
}

// canaries returns what the engine drew.
func (h *history) canaries(g *group) (ids []string) {
	for _, s := range h.rollout.Status.Groups {
		if s.Name != g.want.name {
			continue
		}
		for _, c := range s.Canaries {
			ids = append(ids, c.HostID)
		}
	}
	return ids
}

// plan returns what the engine drew.
func (h *history) plan(g *group) []string {
	for _, s := range h.rollout.Status.Groups {
		if s.Name == g.want.name && s.Plan != nil {
			return h.hosts[s.Name]
		}
	}
	return nil
}

// drawn checks that so many different ones of these hosts could be drawn.
func (h *history) drawn(g *group, what string, ids, of []string, many int) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	strange := slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(of, id) })
	if strange || len(ids) != many {
		h.wrong = fmt.Sprintf("%s of %s: the engine drew %v, of %v are to be %d", what, g.want.name, ids, of, many)
	}
}

// compare returns what differs, or nothing.
func (h *history) compare() string {
	if h.wrong != "" {
		return h.wrong
	}
	if got, want := len(h.rollout.Status.Groups), len(h.model.rollout.groups); got != want {
		return fmt.Sprintf("the engine has %d groups, the model %d", got, want)
	}
	for i, g := range h.model.rollout.groups {
		if diff := compareGroup(h.rollout.Status.Groups[i], g); diff != "" {
			return g.want.name + ": " + diff
		}
	}
	snapshot := h.snapshot()
	for _, m := range h.machines {
		for _, name := range []string{m.group, "typo", ""} {
			a := snapshot.Find(rollout.Query{Group: name, Host: m.id}, h.now)
			engine := findAnswer{string(a.Version), a.AutoUpdate, second(a.RetryFailed)}
			h.answers++
			if want := h.model.answer(name, m.id); engine != want {
				return fmt.Sprintf("find for %s of %q: engine %v, model %v (row %q, %q)", m.id[:4], name, engine, want, a.Row.Mode, a.Row.Group)
			}
		}
	}
	for _, g := range h.model.rollout.groups {
		version, critical := snapshot.Channel(g.want.name, h.now)
		wantVersion, wantCritical := h.model.channel(g.want.name)
		if string(version) != wantVersion || critical != wantCritical {
			return fmt.Sprintf("channel of %s: engine %q %v, model %q %v", g.want.name, version, critical, wantVersion, wantCritical)
		}
	}
	return ""
}

// second is a time as the answer has it; 0 for none.
func second(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func compareGroup(s rollout.GroupStatus, g *group) string {
	reason := ""
	if s.Halted != nil {
		reason = string(s.Halted.Reason)
	}
	index := -1
	if s.Plan != nil {
		index = s.Plan.LastActiveHostIndex
	}
	engine := fmt.Sprintf("%s halted=%q index=%d previous=%s", s.State, reason, index, s.PreviousVersion)
	model := fmt.Sprintf("%s halted=%q index=%d previous=%s", g.state, g.halted, g.index, g.previous)
	if g.state != unstarted {
		engine += fmt.Sprintf(" initial=%d since %s", s.InitialCount, s.StartTime.Format(time.RFC3339))
		model += fmt.Sprintf(" initial=%d since %s", g.initial, g.trial.Format(time.RFC3339))
	}
	if engine != model {
		return "engine " + engine + ", model " + model
	}
	return ""
}

// explain is a difference with what led to it.
func (h *history) explain(diff string) string {
	log := h.log
	if len(log) > 60 {
		log = log[len(log)-60:]
	}
	var known strings.Builder
	for _, g := range h.model.rollout.groups {
		fmt.Fprintf(&known, "%s plan %v canaries %v window end %s\n", g.want.name, g.plan, g.canaries, g.windowEnd.Format("Mon 15:04"))
	}
	for _, m := range h.machines {
		if r := h.model.hosts[m.id]; r != nil {
			fmt.Fprintf(&known, "%s first %s seen %s", m.id[:4], r.first.Format("Mon 15:04"), r.seen.Format("15:04"))
			fmt.Fprintf(&known, " told at %s failed %s", r.toldAt.Format("Mon 15:04"), r.failedFor)
			fmt.Fprintf(&known, " at %s says %+v\n", r.failedAt.Format("Mon 15:04"), r.last)
		}
	}
	return fmt.Sprintf("%s at %s\n%s\n%s\nrollout %v by %s\n%s", diff, h.now.Format("Mon 2006-01-02 15:04"),
		strings.Join(log, "\n"), known.String(), h.began, h.mode, h.sheet.config(h.mode))
}
