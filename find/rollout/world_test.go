package rollout

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// world is a fleet, what people want of it, and an engine: all that the server is
// but the network and the disk.
type world struct {
	t       *testing.T
	config  *Config
	version *Version
	rollout *Rollout
	plans   map[string]*Index
	orders  map[string][]string // the hosts of each plan
	fleet   *fleet
	now     time.Time
	jitter  time.Duration
	counted bool // the counts are complete
	steps   []Step
}

// fleet is a Fleet in the order in which its hosts came.
type fleet struct {
	hosts []*Host
	byID  map[HostID]*Host
}

func (f *fleet) All() iter.Seq[*Host]    { return slices.Values(f.hosts) }
func (f *fleet) Host(id HostID) *Host    { return f.byID[id] }
func (f *fleet) named(name string) *Host { return f.byID[ParseHostID(hostID(name))] }

// hostID is a UUID that can be told from others.
func hostID(name string) string {
	id := ParseHostID("host " + name)
	return id.String()
}

// monday is 00:00 UTC of one.
var monday = time.Date(2025, 6, 2, 0, 0, 0, 0, time.UTC)

// when is a moment of the week after monday: when("Fri 16:30").
func when(text string) time.Time {
	parsed, err := time.Parse("Mon 15:04", text)
	if err != nil {
		panic(err)
	}
	for d := range 7 {
		day := monday.AddDate(0, 0, d)
		if strings.HasPrefix(text, day.Format("Mon")) {
			return day.Add(time.Duration(parsed.Hour())*time.Hour + time.Duration(parsed.Minute())*time.Minute)
		}
	}
	panic(text)
}

// newWorld has the spec.agents of a config, mode enabled, and version 17.2.1 after
// 17.2.0.
func newWorld(t *testing.T, agents string) *world {
	t.Helper()
	w := &world{t: t, version: versionWith("", Regular), plans: make(map[string]*Index), orders: make(map[string][]string),
		fleet: &fleet{byID: make(map[HostID]*Host)}, now: when("Mon 00:00"), counted: true}
	w.configure(agents)
	return w
}

func (w *world) configure(agents string) {
	w.t.Helper()
	list, err := Parse([]byte("kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: enabled, " + agents + "}}"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.config = list[0].(*Config)
}

// regular makes the spec.agents of groups.
func regular(groups ...string) string {
	return "schedules: {regular: [" + strings.Join(groups, ", ") + "]}"
}

// everyHour are days and hours for a group that may start between 10 and 11.
const everyDay = `days: ["*"], start_hour: 10`

// add has hosts NAME-0, NAME-1… of a group report a version, and then wait until
// they count.
func (w *world) add(group string, n int, version Semver) (names []string) {
	for i := range n {
		name := fmt.Sprintf("%s-%d", group, i)
		names = append(names, name)
		w.join(name, group, version)
	}
	return names
}

func (w *world) join(name, group string, version Semver) *Host {
	h := &Host{}
	h.Take(Heartbeat{HostID: hostID(name), UpdaterID: "updater " + name, Hostname: name, Group: group, Version: version}, w.now.Add(-2*time.Minute))
	w.fleet.hosts = append(w.fleet.hosts, h)
	w.fleet.byID[h.ID] = h
	return h
}

// report has a host report, after an edit of what it said before.
func (w *world) report(name string, edit func(*Heartbeat)) {
	h := w.fleet.named(name)
	b := Heartbeat{HostID: h.ID.String(), Group: h.Group, Version: h.Version, Pinned: h.Pinned, Disabled: h.Disabled, Unhealthy: h.Unhealthy, Told: h.Told.Target}
	if edit != nil {
		edit(&b)
	}
	h.Take(b, w.now)
}

// poll has a host ask find and report what it was told.
func (w *world) poll(name string) Answer {
	a := w.find(name)
	w.report(name, func(b *Heartbeat) {
		b.Told = ""
		if a.AutoUpdate {
			b.Told = a.Version
		}
	})
	return a
}

// update has a host report that it runs a version.
func (w *world) update(name string, version Semver) {
	w.report(name, func(b *Heartbeat) {
		b.Version, b.Told = version, ""
		b.Outcome = &Outcome{Target: version, State: OutcomeSucceeded, Time: w.now}
	})
}

// fail has a host report that the target was rolled back.
func (w *world) fail(name string) {
	w.report(name, func(b *Heartbeat) {
		b.Outcome = &Outcome{Target: w.version.Spec.Agents.TargetVersion, State: OutcomeRolledBack, Error: "it dies of SIGSEGV", Time: w.now}
	})
}

// alive has all hosts but some report again.
func (w *world) alive(but ...string) {
	for _, h := range w.fleet.hosts {
		if !slices.Contains(but, h.Hostname) {
			w.report(h.Hostname, nil)
		}
	}
}

func (w *world) counts() Counts {
	return Count(w.rollout, w.fleet, w.plans, CountOptions{Complete: w.counted, Jitter: w.jitter, Now: w.now})
}

// tick is one tick of the engine, whose result goes through the form in which it is
// kept.
func (w *world) tick() []Step {
	w.t.Helper()
	var n Counts
	if w.rollout != nil {
		n = w.counts()
	}
	result := Next(w.config, w.version, w.rollout, n, w.now)
	w.keep(result)
	return result.Steps
}

// order carries out an order, which must not be refused.
func (w *world) order(o Order) {
	w.t.Helper()
	result, err := o.Apply(w.config, w.version, w.rollout, w.counts(), w.now)
	if err != nil {
		w.t.Fatalf("%+v: %v", o, err)
	}
	w.keep(result)
}

// refused returns why an order cannot be carried out.
func (w *world) refused(o Order) string {
	w.t.Helper()
	var n Counts
	if w.rollout != nil {
		n = w.counts()
	}
	result, err := o.Apply(w.config, w.version, w.rollout, n, w.now)
	if err == nil {
		w.t.Fatalf("%+v is not refused: %+v", o, result)
	}
	return err.Error()
}

func (w *world) keep(result Result) {
	w.t.Helper()
	w.steps = append(w.steps, result.Steps...)
	for _, p := range result.Plans {
		number := uint64(100)
		stored := make(map[string][]byte)
		for _, page := range p.all(w.t, func() uint64 { number++; return number }) {
			stored[page.Name] = page.Value
		}
		read, _, err := ReadPlan(stored[""], func(name string) ([]byte, error) { return stored[name], nil })
		if err != nil || !slices.Equal(read.Hosts, p.Hosts) || read.Group != p.Group || read.Version != p.Version || read.Schedule != p.Schedule || !read.StartTime.Equal(p.StartTime) {
			w.t.Fatalf("plan of %s: %v\ngot  %+v\nwant %+v", p.Group, err, read, p)
		}
		w.orders[p.Group] = namesOf(read)
		if w.plans[p.Group], err = NewIndex(read.Hosts); err != nil {
			w.t.Fatal(err)
		}
	}
	if result.Rollout == w.rollout || result.Rollout == nil {
		return
	}
	data, err := JSON(result.Rollout)
	if err != nil {
		w.t.Fatal(err)
	}
	list, err := Parse(data)
	if err != nil || !reflect.DeepEqual(list[0], Resource(result.Rollout)) {
		w.t.Fatalf("%v\nkept as %s\nread as %+v\nwant    %+v", err, data, list, result.Rollout)
	}
	w.rollout = list[0].(*Rollout)
}

func (w *world) snapshot() *Snapshot {
	return NewSnapshot(w.config, w.version, w.rollout, w.plans)
}

// find is what a host of the fleet is told.
func (w *world) find(name string) Answer {
	h := w.fleet.named(name)
	return w.snapshot().Find(Query{Group: h.Group, Host: h.ID.String(), UpdaterID: h.UpdaterID.String()}, w.now)
}

// told is find in short: a version, with "now" where the host is to update.
func (w *world) told(group, host string) string {
	id := ""
	if host != "" {
		id = hostID(host)
	}
	return short(w.snapshot().Find(Query{Group: group, Host: id}, w.now))
}

func short(a Answer) string {
	if a.AutoUpdate {
		return string(a.Version) + " now"
	}
	return string(a.Version)
}

// begin lets the rollout begin, and then the clock stand at a moment.
func (w *world) begin(moment string) {
	w.t.Helper()
	w.tick()
	w.now = when(moment)
	for _, h := range w.fleet.hosts {
		h.FirstSeen, h.LastSeen = w.now.Add(-time.Hour), w.now
	}
}

// pass lets time pass, in which all hosts but some report and the engine ticks.
func (w *world) pass(d time.Duration, but ...string) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(10*time.Minute, end.Sub(w.now)))
		w.alive(but...)
		w.tick()
	}
}

// states are those of the groups, with ! for a halted one.
func (w *world) states() string {
	var list []string
	for _, g := range w.rollout.Status.Groups {
		state := string(g.State)
		if g.Halted != nil {
			state += "!" + string(g.Halted.Reason)
		}
		for _, c := range g.Conditions {
			state += "?" + string(c.Type)
		}
		list = append(list, state)
	}
	return strings.Join(list, " ")
}

func (w *world) want(states string) {
	w.t.Helper()
	if got := w.states(); got != states {
		w.t.Errorf("%s: the groups are %q; want %q\nsteps %+v", w.now.Format("Mon 15:04:05"), got, states, w.steps)
	}
}

func (w *world) wantTold(group, host, want string) {
	w.t.Helper()
	if got := w.told(group, host); got != want {
		w.t.Errorf("%s: host %q of group %q is told %q; want %q", w.now.Format("Mon 15:04:05"), host, group, got, want)
	}
}

func (w *world) group(name string) *GroupStatus {
	w.t.Helper()
	i := w.rollout.group(name)
	if i < 0 {
		w.t.Fatalf("there is no group %s", name)
	}
	return &w.rollout.Status.Groups[i]
}

// canaryNames are the hosts that were picked.
func (w *world) canaryNames(group string) (names []string) {
	for _, c := range w.group(group).Canaries {
		names = append(names, c.Hostname)
	}
	return names
}

// inOrder are the names of the hosts of a plan.
func (w *world) inOrder(group string) (names []string) {
	for _, id := range w.orders[group] {
		names = append(names, w.fleet.byID[ParseHostID(id)].Hostname)
	}
	return names
}
