package answers

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

var monday = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// What becomes of a group that is halted on one server only.
func TestWhatEndsAHaltThatIsHeld(t *testing.T) {
	halted := monday.Add(time.Hour)
	group := func(edit func(*rollout.GroupStatus)) rollout.GroupStatus {
		g := rollout.GroupStatus{Name: "dev", State: rollout.Canarying, StartTime: monday, LastUpdateTime: monday, LastUpdateReason: rollout.InWindow}
		edit(&g)
		return g
	}
	for name, tc := range map[string]struct {
		held, now func(*rollout.GroupStatus)
		over      bool
	}{
		"it is as it was": {now: func(*rollout.GroupStatus) {}},
		"its canaries are done": {now: func(g *rollout.GroupStatus) {
			g.State, g.LastUpdateTime, g.LastUpdateReason = rollout.Active, halted.Add(time.Second), rollout.CanariesDone
		}},
		"it was begun by hand before": {now: func(g *rollout.GroupStatus) { g.LastUpdateReason = rollout.ManualForced }},
		"it is done":                  {now: func(g *rollout.GroupStatus) { g.State = rollout.Done }, over: true},
		"it was rolled back":          {now: func(g *rollout.GroupStatus) { g.State = rollout.RolledBack }, over: true},
		"it was tried again, and its canaries are done": {now: func(g *rollout.GroupStatus) {
			g.State, g.RetryTime, g.LastUpdateReason = rollout.Active, halted.Add(time.Second), rollout.CanariesDone
		}, over: true},
		"another window has begun": {now: func(g *rollout.GroupStatus) { g.StartTime = monday.Add(24 * time.Hour) }, over: true},
		"it went on without canaries by hand": {now: func(g *rollout.GroupStatus) {
			g.State, g.LastUpdateTime, g.LastUpdateReason = rollout.Active, halted.Add(time.Second), rollout.ManualForced
		}, over: true},
		"it had not started, and starts by itself": {
			held: func(g *rollout.GroupStatus) { g.State, g.StartTime = rollout.Unstarted, time.Time{} },
			now: func(g *rollout.GroupStatus) {
				g.State, g.StartTime = rollout.Active, halted.Add(time.Second)
			},
		},
		"it had not started, and people had it wait for its turn, which has come": {
			held: func(g *rollout.GroupStatus) { g.State, g.StartTime = rollout.Unstarted, time.Time{} },
			now: func(g *rollout.GroupStatus) {
				g.State, g.StartTime, g.RetryTime = rollout.Active, halted.Add(time.Hour), halted.Add(time.Second)
			},
			over: true,
		},
		"it had not started, and people had it wait for its turn": {
			held: func(g *rollout.GroupStatus) { g.State, g.StartTime = rollout.Unstarted, time.Time{} },
			now: func(g *rollout.GroupStatus) {
				g.State, g.StartTime, g.LastUpdateTime, g.LastUpdateReason = rollout.Unstarted, time.Time{}, halted.Add(time.Second), rollout.ManualRetry
			},
			over: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.held == nil {
				tc.held = func(*rollout.GroupStatus) {}
			}
			held := group(tc.held)
			held.Halted = &rollout.Halted{Since: halted, Reason: rollout.HostsFailed}
			now := group(tc.now)
			of := func(g rollout.GroupStatus) *rollout.Rollout {
				return &rollout.Rollout{Status: rollout.RolloutStatus{StartTime: monday, Groups: []rollout.GroupStatus{g}}}
			}
			s := &Stored{opts: StoredOptions{Log: slog.New(slog.DiscardHandler)}}
			s.brake.hold(of(held))
			if got := s.WithHalts(of(now)).Status.Groups[0].Halted == nil; got != tc.over {
				t.Errorf("it goes on: %t", got)
			}
			s.settleHalts(of(now))
			if got := len(s.Held()) == 0; got != tc.over {
				t.Errorf("the halt is dropped: %t", got)
			}
		})
	}
}

// A halt that comes while a rollout is written that was computed before it stays.
func TestOnlyHaltsThatWereSeenAreLetGo(t *testing.T) {
	r := new(rollout.Rollout)
	for _, name := range []string{"a", "b"} {
		r.Status.Groups = append(r.Status.Groups, rollout.GroupStatus{Name: name, State: rollout.Active, StartTime: monday})
	}
	halt := func(i int) *rollout.Rollout {
		halted := r.Clone()
		halted.Status.Groups[i].Halted = &rollout.Halted{Since: monday.Add(time.Hour), Reason: rollout.HostsFailed}
		return halted
	}
	s := &Stored{opts: StoredOptions{Log: slog.New(slog.DiscardHandler)}}
	s.brake.hold(halt(0))
	seen := s.WithHalts(r)
	s.brake.hold(halt(1))
	s.LetHaltsGo(seen)
	if held := strings.Join(s.Held(), "\n"); held != "halted on this server only, not yet written: b" {
		t.Errorf("%q is held", held)
	}
	s.settleHalts(&rollout.Rollout{Status: rollout.RolloutStatus{StartTime: monday}})
	if held := s.Held(); len(held) > 0 {
		t.Errorf("%q is held of a rollout that is over", held)
	}
}

// What a server knows may be missing in every store but the one that it has read, at the same revision or a later one of its epoch.
func TestWhenAStoreMayLackSomething(t *testing.T) {
	read := moment{store.Identity{ID: "a", Epoch: 1}, 3*store.EpochStep + 9}
	for name, tc := range map[string]struct {
		now  moment
		lack bool
	}{
		"the same":              {now: read},
		"a later change":        {now: moment{read.of, read.at + 5}},
		"an earlier one":        {now: moment{read.of, read.at - 1}, lack: true},
		"a copy":                {now: moment{store.Identity{ID: "a", Epoch: 2}, read.at + 5}, lack: true},
		"a standby of the same": {now: moment{read.of, read.at + 7*store.EpochStep}, lack: true},
	} {
		if got := tc.now.mayLack(read); got != tc.lack {
			t.Errorf("%s: %t", name, got)
		}
	}
}
