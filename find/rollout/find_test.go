package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The rows of the design's table of what find answers, by their words.
func TestRowsOfWhatFindAnswers(t *testing.T) {
	taken := make(map[*FindRow]bool)
	const (
		stays = "17.2.0"
		old   = "17.2.0 now"
		fresh = "17.2.1"
		now   = "17.2.1 now"
	)
	picked, rest := hostID("picked"), hostID("rest")
	for _, tc := range []struct {
		mode, group, version, update string // as the design has them
		effective                    Mode
		state                        State
		strategy                     Strategy
		halted                       Reason
		schedule                     Schedule
		plan                         bool
		end                          time.Duration // of the window, from now
		picked, rest                 string        // the answers; both are in the plan, the second one later
	}{
		{"disabled", "any", "target", "false", Disabled, Unstarted, HaltOnError, "", Regular, false, 0, fresh, fresh},
		{"disabled", "any", "target", "false", Disabled, Canarying, HaltOnError, "", Regular, false, 0, fresh, fresh},
		{"disabled", "any", "target", "false", Disabled, Active, HaltOnError, "", Regular, true, 0, fresh, fresh},
		{"disabled", "any", "target", "false", Disabled, Done, TimeBased, "", Regular, false, 0, fresh, fresh},
		{"disabled", "any", "target", "false", Disabled, RolledBack, HaltOnError, "", Regular, false, 0, fresh, fresh},
		{"disabled", "any", "target", "false", Disabled, Active, HaltOnError, "", Immediate, false, 0, fresh, fresh},
		{"suspended", "unstarted, canary, rolledback / active, done", "start / target", "false", Suspended, Unstarted, HaltOnError, "", Regular, false, 0, stays, stays},
		{"suspended", "unstarted, canary, rolledback / active, done", "start / target", "false", Suspended, Canarying, HaltOnError, "", Regular, false, 0, stays, stays},
		{"suspended", "unstarted, canary, rolledback / active, done", "start / target", "false", Suspended, RolledBack, HaltOnError, "", Regular, false, 0, stays, stays},
		{"suspended", "unstarted, canary, rolledback / active, done", "start / target", "false", Suspended, Active, HaltOnError, "", Regular, true, 0, fresh, fresh},
		{"suspended", "unstarted, canary, rolledback / active, done", "start / target", "false", Suspended, Done, HaltOnError, "", Regular, false, 0, fresh, fresh},
		{"suspended", "immediate schedule", "target", "false", Suspended, Active, HaltOnError, "", Immediate, false, 0, fresh, fresh},
		{"enabled", "immediate schedule", "target", "true", Enabled, Active, HaltOnError, "", Immediate, false, 0, now, now},
		{"enabled", "unstarted", "start", "false", Enabled, Unstarted, HaltOnError, "", Regular, false, 0, stays, stays},
		{"enabled", "unstarted", "start", "false", Enabled, Unstarted, HaltOnError, RolloutRollback, Regular, false, 0, stays, stays},
		{"enabled", "canary", "target for the picked, start for the rest", "true for the picked only", Enabled, Canarying, HaltOnError, "", Regular, false, 0, now, stays},
		{"enabled", "active without a plan", "target", "true (time-based: only before window_end, even if the engine has died)", Enabled, Active, HaltOnError, "", Critical, false, 0, now, now},
		{"enabled", "active without a plan", "target", "true (time-based: only before window_end, even if the engine has died)", Enabled, Active, TimeBased, "", Regular, false, time.Second, now, now},
		{"enabled", "active without a plan", "target", "true (time-based: only before window_end, even if the engine has died)", Enabled, Active, TimeBased, "", Regular, false, -time.Second, fresh, fresh},
		{"enabled", "active with a plan", "target", "the host's place ≤ last_active_host_index", Enabled, Active, HaltOnError, "", Regular, true, 0, now, fresh},
		{"enabled", "active with a plan", "target", "the host's place ≤ last_active_host_index", Enabled, Active, TimeBased, "", Regular, true, time.Second, now, fresh},
		{"enabled", "active with a plan", "target", "the host's place ≤ last_active_host_index", Enabled, Active, TimeBased, "", Regular, true, -time.Second, fresh, fresh},
		{"enabled", "active with a plan", "target", "the host's place ≤ last_active_host_index", Enabled, Active, HaltOnError, Expired, Regular, true, 0, now, fresh},
		{"enabled", "halted by canary, failure or timeout", "by its state", "false", Enabled, Canarying, HaltOnError, CanaryFailed, Regular, false, 0, fresh, stays},
		{"enabled", "halted by canary, failure or timeout", "by its state", "false", Enabled, Canarying, HaltOnError, CanaryTimedOut, Regular, false, 0, fresh, stays},
		{"enabled", "halted by canary, failure or timeout", "by its state", "false", Enabled, Active, HaltOnError, HostsFailed, Regular, true, 0, fresh, fresh},
		{"enabled", "halted by canary, failure or timeout", "by its state", "false", Enabled, Active, HaltOnError, HostsTimedOut, Regular, false, 0, fresh, fresh},
		{"enabled", "done", "target", "halt-on-error true, time-based false", Enabled, Done, HaltOnError, "", Regular, true, 0, now, now},
		{"enabled", "done", "target", "halt-on-error true, time-based false", Enabled, Done, TimeBased, "", Regular, false, -time.Hour, fresh, fresh},
		{"enabled", "rolledback", "start", "true", Enabled, RolledBack, HaltOnError, "", Regular, false, 0, old, old},
	} {
		t.Run(fmt.Sprintf("%s | %s | %s | %s (%s %s %s)", tc.mode, tc.group, tc.version, tc.update, tc.state, tc.strategy, tc.halted), func(t *testing.T) {
			v := versionWith(tc.effective, tc.schedule)
			agents := "strategy: " + string(tc.strategy) + ", schedules: {GROUPS: [{name: other, start_hour: 4}, {name: last, start_hour: 4, jitter_seconds: 7}]}"
			w := newWorld(t, strings.ReplaceAll(agents, "GROUPS", map[Schedule]string{Regular: "regular", Critical: "critical", Immediate: "regular"}[tc.schedule]))
			r := NewRollout(w.config, v, when("Mon 00:00"))
			if tc.schedule != Immediate {
				g := &r.Status.Groups[1]
				g.State = tc.state
				g.Canaries = []Canary{{HostID: picked, UpdaterID: "updater of the picked"}, {}}
				if tc.halted != "" {
					g.Halted = &Halted{Reason: tc.halted}
				}
				if tc.end != 0 {
					g.WindowEnd = w.now.Add(tc.end)
				}
				if tc.plan {
					g.Plan = &PlanReference{HostCount: 3, LastActiveHostIndex: 1}
				}
			}
			plan, err := NewIndex(idsOf(hostID("first"), picked, rest))
			if err != nil {
				t.Fatal(err)
			}
			s := NewSnapshot(w.config, v, r, map[string]*Index{"last": plan})
			check := func(q Query, want string) {
				t.Helper()
				a := s.Find(q, w.now)
				taken[a.Row] = true
				if short(a) != want {
					t.Errorf("%+v is told %s; want %s (row %+v)", q, short(a), want, a.Row)
				}
				if again := s.Find(q, w.now); again != a {
					t.Errorf("the same question has another answer: %+v after %+v", again, a)
				}
				if want := 7 * time.Second; a.Jitter != want && tc.schedule != Immediate {
					t.Errorf("the jitter is %s; want %s", a.Jitter, want)
				}
			}
			for _, group := range []string{"last", "", "typo"} {
				check(Query{Group: group, Host: picked}, tc.picked)
				check(Query{Group: group, Host: rest}, tc.rest)
				check(Query{Group: group, Host: hostID("stranger")}, tc.rest)
				check(Query{Group: group}, tc.rest)
				if !tc.plan {
					check(Query{Group: group, UpdaterID: "updater of the picked"}, tc.picked)
					check(Query{Group: group, Host: "", UpdaterID: "updater of another"}, tc.rest)
				} else {
					check(Query{Group: group, Host: strings.ToUpper(picked)}, tc.picked)
				}
			}
			// An order to a host comes before its group.
			s = s.With(Overrides{hostID("stranger"): {Action: UpdateHost, Target: fresh, Since: when("Mon 00:00").Add(time.Second)}})
			ordered := tc.rest
			if tc.effective == Enabled {
				ordered = fresh + " now"
			}
			check(Query{Group: "last", Host: hostID("stranger")}, ordered)
			check(Query{Group: "last", Host: rest}, tc.rest)
			// A plan that cannot be read admits nobody, whatever its number says.
			if tc.plan && tc.state == Active {
				s = NewSnapshot(w.config, v, r, nil)
				check(Query{Group: "last", Host: picked}, fresh)
			}
			// Who would be held is told the same, and not now.
			r.Spec.Unmatched = Hold
			if tc.schedule != Immediate {
				s = NewSnapshot(w.config, v, r, map[string]*Index{"last": plan})
				check(Query{Group: "last", Host: picked}, tc.picked)
				check(Query{Group: "", Host: picked}, strings.TrimSuffix(tc.picked, " now"))
				check(Query{Group: "typo", Host: picked}, strings.TrimSuffix(tc.picked, " now"))
			}
		})
	}
	for i := range FindTable {
		if row := &FindTable[i]; !taken[row] {
			t.Errorf("no test takes the row %s | %s", row.Mode, row.Group)
		}
	}
}

func TestWithoutGroupsNobodyIsTriggered(t *testing.T) {
	for name, c := range map[string]*Config{"no config": nil, "no groups": configWith(Enabled)} {
		s := NewSnapshot(c, versionWith(Enabled, Regular), nil, nil)
		if got := s.Find(Query{Group: "dev", Host: hostID("a")}, monday); short(got) != "17.2.0" || got.Matched {
			t.Errorf("%s: %+v", name, got)
		}
	}
	w := newWorld(t, "unmatched: hold")
	w.tick()
	w.tick()
	if c := w.rollout.Status.Conditions; len(c) != 1 || c[0].Type != WithoutGroup || w.rollout.Status.State != Unstarted {
		t.Errorf("the status is %+v", w.rollout.Status)
	}
}

// A version that was replaced admits nobody from that moment on.
func TestTheRolloutOfAnotherVersionIsNone(t *testing.T) {
	w := newWorld(t, regular("{name: a, "+everyDay+"}"))
	w.add("a", 3, "17.2.0")
	w.begin("Mon 10:00")
	w.tick()
	w.wantTold("a", "a-0", "17.2.1 now")
	w.version.Spec.Agents.StartVersion, w.version.Spec.Agents.TargetVersion = "17.2.1", "17.3.0"
	w.wantTold("a", "a-0", "17.2.1")
	w.version.Spec.Agents.Schedule = Immediate
	w.wantTold("a", "a-0", "17.3.0 now")
}

// What an updater of RFD 0109 is told, for every row of what find answers: it never
// moves where a host of its group would not.
func TestWhatAChannelThatFollowsAGroupSays(t *testing.T) {
	group := func(more string) string { return regular(`{name: dev, ` + everyDay + more + `}`) }
	begin := func(w *world) {
		w.add("dev", 3, "17.2.0")
		w.begin("Mon 10:30")
		w.tick()
	}
	seen := make(map[*FindRow]bool)
	for _, tc := range []struct {
		name, agents string
		act          func(w *world)
		ask          string
		want         string
	}{
		{"disabled", group(""), func(w *world) { begin(w); w.config.Spec.Agents.Mode = Disabled }, "dev", ""},
		{"suspended, unstarted", group(""), func(w *world) { w.begin("Mon 08:00"); w.config.Spec.Agents.Mode = Suspended }, "dev", ""},
		{"suspended, active", group(""), func(w *world) { begin(w); w.config.Spec.Agents.Mode = Suspended }, "dev", ""},
		{"example 10, immediate", group(""), func(w *world) { w.version = versionWith("", Immediate); w.tick() }, "dev", "17.2.1 critical"},
		{"unstarted", group(""), func(w *world) { w.begin("Mon 08:00") }, "dev", ""},
		{"unstarted, critical", group(""), func(w *world) {
			w.version = versionWith("", Critical)
			w.begin("Mon 08:00")
		}, "dev", ""},
		{"unstarted, critical, with windows of its own", "schedules: {critical: [{name: dev, days: [Sun], start_hour: 4}]}", func(w *world) {
			w.version = versionWith("", Critical)
			w.begin("Mon 08:00")
			w.tick()
		}, "dev", ""},
		{"rolled back, critical", group(""), func(w *world) {
			w.version = versionWith("", Critical)
			begin(w)
			w.order(Order{Verb: Rollback})
		}, "dev", "17.2.0"},
		{"unstarted, and the start version is the target", group(""), func(w *world) {
			w.version.Spec.Agents.StartVersion = "17.2.1"
			w.begin("Mon 08:00")
		}, "dev", ""},
		{"canary, halted", group(", canary_count: 1"), func(w *world) { begin(w); w.fail(w.canaryNames("dev")[0]); w.tick() }, "dev", ""},
		{"canary", group(", canary_count: 1"), begin, "dev", ""},
		{"active, halted", group(", max_failed_before_halt: 0%"), func(w *world) { begin(w); w.fail("dev-0"); w.tick() }, "dev", ""},
		{"active with a plan", group(", max_in_flight: 1"), func(w *world) { begin(w); w.pass(time.Minute) }, "dev", ""},
		{"active", group(""), begin, "dev", "17.2.1"},
		{"active, critical", group(""), func(w *world) { w.version = versionWith("", Critical); begin(w) }, "dev", "17.2.1 critical"},
		{"time-based, active", "strategy: time-based, " + group(""), begin, "dev", "17.2.1"},
		{"time-based, after its window, with a dead engine", "strategy: time-based, " + group(""), func(w *world) { begin(w); w.now = w.now.Add(time.Hour) }, "dev", ""},
		{"time-based, done", "strategy: time-based, " + group(""), func(w *world) { begin(w); w.pass(time.Hour) }, "dev", ""},
		{"done", group(""), func(w *world) { begin(w); w.order(Order{Verb: MarkDone, Groups: []string{"dev"}}) }, "dev", "17.2.1"},
		{"rolled back", group(""), func(w *world) { begin(w); w.order(Order{Verb: Rollback}) }, "dev", "17.2.0"},
		{"example 6, a group that is not there", group(""), begin, "typo", "17.2.1"},
		{"example 6, no group", group(""), begin, "", "17.2.1"},
		{"held", "unmatched: hold, " + group(""), begin, "typo", ""},
		{"no groups", "", func(w *world) { w.tick() }, "dev", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.agents)
			tc.act(w)
			v, critical := w.snapshot().Channel(tc.ask, w.now)
			got := string(v)
			if critical {
				got += " critical"
			}
			if got != tc.want {
				t.Errorf("it says %q; want %q", got, tc.want)
			}
			told := w.snapshot().Find(Query{Group: tc.ask}, w.now)
			if v != "" && !told.AutoUpdate {
				t.Errorf("it says %s, and hosts are not told to update", v)
			}
			seen[told.Row] = true
		})
	}
	for i := range FindTable {
		if !seen[&FindTable[i]] && FindTable[i].update != ordered { // a channel is no host

			t.Errorf("no case is of the row %s; %s", FindTable[i].Mode, FindTable[i].Group)
		}
	}
}
