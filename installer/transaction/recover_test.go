package transaction

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/integration/sample"
)

// cut kills the updater at a call, the nth of its name, before it or after it.
func (m *model) cut(name string, nth int, after bool) {
	seen := 0
	hook := func(call string) error {
		if call == name {
			if seen++; seen == nth {
				panic(killed{})
			}
		}
		return nil
	}
	if after {
		m.after = hook
	} else {
		m.before = hook
	}
}

func (m *model) dropHooks() { m.before, m.after, m.reachable = nil, nil, true }

// A scene is a host on which a transaction was cut off.
type scene struct {
	name string
	make func(*testing.T) *model
}

func cutOff(name string, make func(*testing.T) *model, kind Kind, call string, nth int, after bool) scene {
	return scene{name, func(t *testing.T) *model {
		t.Helper()
		m := make(t)
		m.cut(call, nth, after)
		if err, dead := m.runs(func() error { return m.transact(t.Context(), m.request(kind)) }); !dead {
			t.Fatalf("the transaction was not killed at %s %d: %v; calls %q", call, nth, err, m.calls)
		}
		m.dropHooks()
		m.calls = nil
		return m
	}}
}

// scenes has each phase of the table.
func scenes() []scene {
	sound := func(t *testing.T) *model { return upgrade(t, twoHolds) }
	bad := func(f fate) func(*testing.T) *model { return func(t *testing.T) *model { return upgrade(t, two(f)) } }
	back := func(f fate) func(*testing.T) *model { return func(t *testing.T) *model { return downgrade(t, f) } }
	proofOf := func(make func(*testing.T) *model) scene {
		mid := cutOff("", make, Update, "watch", 1, false)
		return scene{"proven", func(t *testing.T) *model {
			m := mid.make(t)
			m.edit(func(j *state.Journal) { j.Phase, j.Reached = proven, "watch" })
			return m
		}}
	}
	return []scene{
		cutOff("begun", sound, Update, "daemon-reload", 1, false),
		cutOff("begun, the agent is stopped", back(holds), Downgrade, "stop", 1, true),
		{"begun, restarted midway", func(t *testing.T) *model {
			m := cutOff("", sound, Update, "daemon-reload", 1, true).make(t)
			m.ends()
			m.startUnit() // by links that are the new version's already
			return m
		}},
		cutOff("switched", sound, Update, "prove", 1, false),
		cutOff("switched, a downgrade", back(holds), Downgrade, "prove", 1, false),
		cutOff("switched, in mid-watch", sound, Update, "watch", 1, false),
		cutOff("switched, and bad", bad(diesLate), Update, "watch", 1, false),
		cutOff("rolling back", bad(diesLate), Update, "stop", 1, false),
		cutOff("rolling back, stopped", bad(neverReady), Update, "stop", 1, true),
		cutOff("rolling back, files under way", bad(neverReady), Update, "daemon-reload", 2, true),
		cutOff("rolling back a downgrade", back(diesLate), Downgrade, "stop", 2, true),
		cutOff("restored", bad(diesLate), Update, "prove", 2, false),
		cutOff("restored, in mid-watch", bad(diesLate), Update, "watch", 2, false),
		proofOf(sound),
		{"replacing", func(t *testing.T) *model {
			m := proofOf(sound).make(t)
			wanted := filepath.Join(m.Host.Paths.UnitDir, "timers.target.wants", "theirs.timer")
			must(t, os.MkdirAll(filepath.Dir(wanted), 0o755))
			must(t, os.Symlink("theirs", wanted))
			m.edit(func(j *state.Journal) {
				j.Phase, j.Replaces = replacing, true
				j.Replaced = []state.LinkChange{{Path: wanted, Before: state.Before{Link: "theirs"}}}
			})
			return m
		}},
	}
}

func (m *model) edit(change func(*state.Journal)) {
	m.t.Helper()
	j, err := state.LoadJournal(m.Host.Paths.Journal())
	must(m.t, err)
	change(j)
	must(m.t, j.Save(m.Host.Paths.Journal()))
}

// An outcome is what comes of one call of a recovery.
type outcome struct {
	name string
	// before and after happen at that call; an error keeps the call from being made,
	// or its answer from arriving.
	before, after func(*model) error
	down          bool // a person wants the agent to be down
}

var errNoAnswer = errors.New("systemd does not answer")

func outcomes() []outcome {
	act := func(do func(*model)) func(*model) error {
		return func(m *model) error { do(m); return nil }
	}
	kill := func(*model) error { panic(killed{}) }
	fail := func(*model) error { return errNoAnswer }
	stop := func(m *model) { m.ends(); m.failed = false }
	return []outcome{
		{name: "it goes well"},
		{name: "it fails", before: fail},
		{name: "its answer is lost", after: fail},
		{name: "the updater is killed before it", before: kill},
		{name: "the updater is killed after it", after: kill},
		{name: "somebody restarts the agent before it", before: act(func(m *model) { stop(m); m.startUnit() })},
		{name: "somebody starts the agent after it", after: act(func(m *model) { m.startUnit() })},
		{name: "somebody reloads the agent before it", before: act(func(m *model) { m.reloadUnit() })},
		{name: "its last sessions end before it", before: act((*model).drained)},
		{name: "a person stops the agent before it", before: act(stop), down: true},
		{name: "the agent is killed before it", before: act(func(m *model) { m.ends(); m.failed = true })},
		{name: "somebody has systemd read its files before it", before: act(func(m *model) { m.read() })},
		{name: "the host shuts down before it", before: act(func(m *model) { m.ends(); m.down = true })},
	}
}

// TestEveryPhaseEachCallEachOutcome goes through the table: each phase, at boot and
// on a live host, each call that its recovery makes, and each outcome of it. After
// that, and after the next tick, all is over and the promise is kept. One run has a
// share of them, another one each time; FAULTS=all has all.
func TestEveryPhaseEachCallEachOutcome(t *testing.T) {
	some := sampled{every: 31}
	covered := map[state.Phase]bool{}
	share, number := shareOfRun(t), 0
	for _, s := range scenes() {
		first := s.make(t)
		j, err := load(first.Host.Paths.Journal())
		must(t, err)
		covered[j.Phase] = true
		for _, boot := range []bool{false, true} {
			dry := s.make(t)
			dry.recovers(boot)
			calls := dry.calls
			for n := range len(calls) {
				for k, o := range outcomes() {
					if k == 0 && n > 0 {
						continue
					}
					if number++; share >= 0 && number%shares != share {
						continue
					}
					if some.skips() {
						continue
					}
					t.Run(fmt.Sprintf("%s/boot=%v/%d %s/%s", s.name, boot, n, calls[n], o.name), func(t *testing.T) {
						t.Parallel()
						m := s.make(t)
						m.meets(n, o)
						err, dead := m.recovers(boot)
						m.settles(o, err, dead)
					})
				}
			}
		}
	}
	for _, p := range names() {
		if !covered[p] {
			t.Errorf("no scene is about the phase %s", p)
		}
	}
}

// shares has no factor in common with the number of outcomes, so that each share has
// every outcome at some call.
const shares = 7

// shareOfRun is the share that this run has, -1 for all. FAULTS_SEED repeats one.
func shareOfRun(t *testing.T) int {
	if os.Getenv("FAULTS") == "all" {
		return -1
	}
	share := int(sample.Seed() % shares)
	t.Logf("share %d of %d; another: FAULTS_SEED=%d; all: FAULTS=all", share, shares, share+1)
	return share
}

func (m *model) recovers(boot bool) (error, bool) {
	if boot {
		return m.reboot()
	}
	return m.tick()
}

// meets has an outcome come of the nth call from now on.
func (m *model) meets(n int, o outcome) {
	at := func(count *int, do func(*model) error) func(string) error {
		return func(string) error {
			if *count++; *count-1 == n && do != nil {
				return do(m)
			}
			return nil
		}
	}
	var before, after int
	m.before, m.after, m.met = at(&before, o.before), at(&after, o.after), n
}

// settles says what is wrong once nothing comes in the way any more.
func (m *model) settles(o outcome, err error, dead bool) {
	m.t.Helper()
	history := fmt.Sprintf("it ended with %v, killed %v, after %q", err, dead, m.calls)
	m.dropHooks()
	asks := func(call string) bool { return slices.Contains([]string{"stop", "start", "restart", "prove"}, call) }
	if m.failed && !slices.ContainsFunc(m.calls[min(m.met, len(m.calls)):], asks) {
		m.crashLoop() // by systemd, which restarts what crashed
	}
	m.calls = nil
	if m.down {
		if err, _ := m.reboot(); err != nil {
			m.t.Errorf("the boot ends with %v; %s", err, history)
		}
	}
	if err == nil && !dead && !o.down && m.booted {
		if wrong := m.runsSomething(); wrong != nil {
			m.t.Errorf("right after it: %v; %s", wrong, history)
		}
	}
	// A person may have had the last word.
	if o.down && m.main == nil && !m.failed {
		m.startUnit()
	}
	for range 2 {
		m.write()
		if err, _ := m.tick(); err != nil {
			m.t.Errorf("the next tick ends with %v; %s", err, history)
		}
	}
	if o.down && m.main == nil && !m.failed {
		m.startUnit()
	}
	if !host.Exists(m.Host.Paths.Config()) {
		return // uninstalled
	}
	if wrong := m.closed(); wrong != nil {
		m.t.Errorf("in the end: %v; %s; then %q", wrong, history, m.calls)
	}
}

// runsSomething says what is wrong with an agent that runs before all is over.
func (m *model) runsSomething() error {
	if !host.Exists(m.Host.Paths.Config()) {
		return nil
	}
	return m.sound()
}

// A recovery at boot does without a systemd that does not answer, and the first
// tick has it read what it could not be told of; on a host that is up nothing is
// touched.
func TestASystemdThatDoesNotAnswer(t *testing.T) {
	some := sampled{every: 7}
	for _, s := range scenes() {
		if some.skips() {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := s.make(t)
			before := m.files()
			m.reachable = false
			if err, _ := m.tick(); err == nil {
				t.Error("a tick that cannot reach systemd ends well")
			}
			if after := m.files(); after != before || len(m.calls) > 0 {
				t.Errorf("something was done without systemd: %s became %s, calls %q", before, after, m.calls)
			}
			m.boots++
			m.ends()
			m.failed = false
			if err, _ := m.runs(func() error { return m.Recover(t.Context(), true) }); err != nil {
				t.Errorf("the boot ends with %v", err)
			}
			m.startUnit() // by the unit that systemd has in memory
			m.reachable = true
			m.settles(outcome{}, nil, false)
			if text, _ := os.ReadFile(m.Host.Paths.Unit()); m.unit != string(text) {
				t.Errorf("systemd has %q in memory, the unit is %q", m.unit, text)
			}
		})
	}
}

// files are all that a recovery could change.
func (m *model) files() string {
	j, _ := os.ReadFile(m.Host.Paths.Journal())
	c, _ := os.ReadFile(m.Host.Paths.Config())
	unit, _ := os.ReadFile(m.Host.Paths.Unit())
	v, _ := m.program()
	return fmt.Sprintf("%s %s %s %s %+v", j, c, unit, v, m.readDatabase())
}
