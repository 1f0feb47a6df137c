package server

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
)

// lossyWorld is a server whose group is halted in the rollout of 17.2.2; before, it was active in one of 17.2.1.
type lossyWorld struct {
	*storeWorld
	*reportWorld
	standby string // a copy of the store, which lacks something
	older   string // a copy that lacks even more; may be empty
}

const lossyGroup = "{name: dev, days: ['*'], start_hour: 11, max_failed_before_halt: 0%}"

const timeBased = "mode: enabled, strategy: time-based, maintenance_window_duration: 2h, schedules: {"

// newLossyWorld has a standby that lacks the rollout, or the version, too, or has other ones instead; or lacks nothing. An edit
// is of the configuration of the rollout that is halted.
func newLossyWorld(t *testing.T, lacks string, edits ...string) *lossyWorld {
	t.Helper()
	s, r, _, _ := braking(t)
	w := &lossyWorld{storeWorld: s, reportWorld: r}
	if len(edits) > 0 {
		w.write(strings.NewReplacer(edits...).Replace(enabledGroups(lossyGroup)))
	}
	switch lacks {
	case "version":
		w.standby = copyStore(t, w.path)
	case "version, and has another one without its rollout":
		w.write(strings.ReplaceAll(scheduled, "17.2.1", "17.2.15"))
		w.standby = copyStore(t, w.path)
	case "version, and has another one":
		w.older = w.path + ".older"
		copied := copyStore(t, w.path)
		move(t, copied, w.older)
		move(t, copied+"-wal", w.older+"-wal")
		w.set("17.2.15")
		w.standby = copyStore(t, w.path)
	}
	w.write(strings.ReplaceAll(scheduled, "17.2.1", "17.2.2"))
	if lacks == "rollout" {
		w.standby = copyStore(t, w.path)
	}
	w.begins()
	if lacks == "rollout, and has an earlier one of the version" {
		w.standby = copyStore(t, w.path)
		w.order([]rollout.Order{{Verb: rollout.Reset}})
		w.begins()
	}
	if !w.told() || w.rollout().Spec.TargetVersion != "17.2.2" {
		t.Fatalf("the group is %s\n%s", w.states(), w.log.String())
	}
	w.said(0, "dev", "17.2.1", func(b *find.Heartbeat) { b.Told = "17.2.2" })
	w.said(0, "dev", "17.2.1", func(b *find.Heartbeat) { failedAt("17.2.2", "it broke")(b) })
	w.tick()
	if w.told() || w.states() != "active!" {
		t.Fatalf("the group is %s\n%s", w.states(), w.log.String())
	}
	return w
}

// set sets the version, and has the engine take it up.
func (w *lossyWorld) set(target string) {
	w.storeWorld.t.Helper()
	w.clock.pass(time.Minute)
	w.write(strings.ReplaceAll(scheduled, "17.2.1", target))
	w.step()
}

func (w *lossyWorld) step() {
	w.storeWorld.t.Helper()
	w.clock.pass(time.Minute)
	w.stored.Refresh(w.storeWorld.t.Context())
	w.tick()
	w.stored.Refresh(w.storeWorld.t.Context())
}

func (w *lossyWorld) retry() {
	w.storeWorld.t.Helper()
	w.begins() // so that the server knows the hosts again
	if _, err := w.engine.Order(w.storeWorld.t.Context(), rollout.Order{Who: "uid 0", Verb: rollout.Retry, Groups: []string{"dev"}}, false); err != nil {
		w.storeWorld.t.Fatal(err)
	}
}

// begins waits for the next window of the group.
func (w *lossyWorld) begins() {
	w.storeWorld.t.Helper()
	now := w.clock.Now()
	next := now.Truncate(24 * time.Hour).Add(35 * time.Hour)
	w.clock.pass(next.Sub(now) - 27*time.Minute)
	for range 4 {
		w.clock.pass(9 * time.Minute)
		for i := range 5 {
			w.said(i, "dev", "17.2.1", nil)
		}
		w.tickFleet()
		w.step()
	}
}

// lose fails over to the standby.
func (w *lossyWorld) lose() {
	w.storeWorld.t.Helper()
	if w.standby == "" {
		w.standby = copyStore(w.storeWorld.t, w.path)
	}
	w.failOver(w.standby)
}

// A failover loses a rollout with its halt, and the version is given again: the group stays halted until a person retries it.
// What people have decided, and no failover has lost, halts nothing.
func TestAHaltOutlivesItsRollout(t *testing.T) {
	for name, tc := range map[string]struct {
		kept  func(*lossyWorld) // between the halt and the failover, and not lost
		lacks string            // what the standby lacks beside the halt; empty for nothing at all
		after func(*lossyWorld)
		told  bool
	}{
		"the engine begins it again":       {lacks: "rollout", after: func(w *lossyWorld) { w.step() }},
		"a person gives it again":          {lacks: "version", after: func(w *lossyWorld) { w.set("17.2.2") }},
		"after some looks":                 {lacks: "version", after: func(w *lossyWorld) { w.step(); w.step(); w.set("17.2.2") }},
		"a person retries it":              {lacks: "version", after: func(w *lossyWorld) { w.set("17.2.2"); w.retry() }, told: true},
		"people had gone on and come back": {kept: func(w *lossyWorld) { w.set("17.2.3") }, after: func(w *lossyWorld) { w.set("17.2.2") }, told: true},
		"the store goes on with an earlier one": {lacks: "rollout, and has an earlier one of the version", after: func(w *lossyWorld) {
			w.stored.Refresh(w.storeWorld.t.Context())
			if w.told() { // the engine may count what has failed, later
				w.storeWorld.t.Error("hosts are told to update at once")
			}
		}},
		"a person retries the earlier one": {lacks: "rollout, and has an earlier one of the version",
			after: func(w *lossyWorld) { w.step(); w.retry() }, told: true},
		"the engine begins what the standby has instead": {lacks: "version, and has another one without its rollout",
			after: func(w *lossyWorld) { w.step(); w.set("17.2.2") }},
		"another failover goes further back": {lacks: "version, and has another one",
			after: func(w *lossyWorld) { w.step(); w.failOver(w.older); w.step(); w.set("17.2.2") }},
		"people go on and come back": {lacks: "version", after: func(w *lossyWorld) { w.set("17.2.3"); w.set("17.2.2") },
			told: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLossyWorld(t, tc.lacks)
			if tc.kept != nil {
				tc.kept(w)
			}
			w.lose()
			tc.after(w)
			w.begins()
			if w.told() != tc.told {
				t.Errorf("hosts are told to update: %t\n%s", w.told(), w.log.String())
			}
			if halted := w.rollout().Status.Groups[0].Halted; (halted == nil) != tc.told {
				t.Errorf("the store has the halt %+v", halted)
			}
		})
	}
}

// A server that knows the halt is cut off before a failover, and returns when people have decided: theirs stands, also if it
// has read no rollout between. What nobody has decided stays halted.
func TestWhatPeopleOrderWhileAServerIsCutOffStands(t *testing.T) {
	order := func(verb rollout.Verb, groups ...string) func(*lossyWorld) {
		return func(w *lossyWorld) {
			w.storeWorld.t.Helper()
			o := rollout.Order{Who: "uid 0", Verb: verb, Groups: groups}
			if _, err := w.engine.Order(w.storeWorld.t.Context(), o, false); err != nil {
				w.storeWorld.t.Fatal(err)
			}
			w.step()
		}
	}
	again := func(w *lossyWorld) { w.set("17.2.2"); w.begins() }
	begins := (*lossyWorld).begins
	for name, tc := range map[string]struct {
		lacks  string
		edits  []string
		people []func(*lossyWorld)
		told   bool
	}{
		"nobody orders anything":                      {lacks: "version", people: []func(*lossyWorld){again}},
		"the rollout is lost, nobody orders anything": {lacks: "rollout", people: []func(*lossyWorld){begins}},
		"a retry before its turn":                     {lacks: "version", people: []func(*lossyWorld){again, order(rollout.Retry, "dev"), begins}, told: true},
		"a reset":                                     {lacks: "version", people: []func(*lossyWorld){again, order(rollout.Reset), begins}, told: true},
		"the rollout is lost, a reset":                {lacks: "rollout", people: []func(*lossyWorld){begins, order(rollout.Reset), begins}, told: true},
		"mark-done, and another window": {lacks: "version", edits: []string{"mode: enabled, schedules: {", timeBased},
			people: []func(*lossyWorld){again, order(rollout.MarkDone, "dev"), begins}, told: true},
		"another window, and nobody orders anything": {lacks: "version", edits: []string{"mode: enabled, schedules: {", timeBased},
			people: []func(*lossyWorld){again, begins}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLossyWorld(t, tc.lacks, tc.edits...)
			away := &awayStore{Store: w.other}
			cut := w.again(away)
			if cut.told() {
				t.Fatal("the group is not halted")
			}
			away.away.Store(true)
			w.lose()
			w.step()
			for _, decide := range tc.people {
				decide(w)
			}
			if w.told() != tc.told {
				t.Fatalf("hosts are told to update: %t; the group is %s\n%s", w.told(), w.states(), w.log.String())
			}
			states := w.states()
			away.away.Store(false)
			for range 2 {
				cut.clock.pass(time.Second)
				if err := cut.stored.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
				if held := cut.stored.Held(); cut.told() != tc.told || len(held) > 0 {
					t.Errorf("the server that was cut off tells hosts to update: %t, and holds %q", cut.told(), held)
				}
				cut.tick()
			}
			if got := w.states(); got != states {
				t.Errorf("the group was %s, and is %s", states, got)
			}
		})
	}
}
