package simulate

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

// scenario has the spec.agents of a config, and version 1.1.0 after 1.0.0.
func scenario(t *testing.T, agents string, hosts map[string]int) Scenario {
	t.Helper()
	list, err := rollout.Parse([]byte("kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: enabled, " + agents + "}}\n---\n" +
		"kind: autoupdate_version\nmetadata: {name: autoupdate-version}\nspec: {agents: {start_version: 1.0.0, target_version: 1.1.0}}"))
	if err != nil {
		t.Fatal(err)
	}
	return Scenario{
		Config: list[0].(*rollout.Config), Version: list[1].(*rollout.Version), Hosts: hosts, Fails: map[string]float64{}, Lost: map[string]float64{},
		Poll: 10 * time.Minute, Spread: 5 * time.Minute, Update: 3 * time.Minute, Begin: time.Date(2025, 6, 2, 0, 0, 0, 0, time.UTC), For: 14 * 24 * time.Hour, Seed: 1,
	}
}

func run(t *testing.T, s Scenario) *Timeline {
	t.Helper()
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// steps are those of the engine, in short.
func steps(r *Timeline) string {
	var list []string
	for _, e := range r.Events {
		if e.Reason != "" && e.Group != "" {
			what, _, _ := strings.Cut(e.What, ":")
			list = append(list, fmt.Sprintf("%s %s %s", e.Time.Format("Mon 15:04"), e.Group, strings.ReplaceAll(what, " → ", ">")))
		}
	}
	return strings.Join(list, "; ")
}

const three = `schedules: {regular: [{name: dev, days: ["*"], start_hour: 13}, {name: staging, start_hour: 15, canary_count: 3}, {name: prod, start_hour: 15, wait_hours: 24, max_in_flight: 10%}]}`

func TestSimulations(t *testing.T) {
	fleet := map[string]int{"dev": 10, "staging": 50, "prod": 200}
	for _, tc := range []struct {
		name, agents string
		hosts        map[string]int
		edit         func(*Scenario)
		steps        string
		why          string
		word         rollout.Word
		upToDate     string
	}{
		{
			"a good release goes from group to group", three, fleet, nil,
			"Mon 13:00 dev unstarted>active; Mon 13:16 dev active>done; Mon 15:00 staging unstarted>canary; Mon 15:15 staging canary>active; Mon 15:29 staging active>done; Tue 15:29 prod unstarted>active; Tue 17:07 prod active>done",
			"all groups are done", "done", "10 50 199",
		},
		{
			"example 9, a release that breaks on a canary halts, and nobody else moves", three, fleet, func(s *Scenario) { s.Fails["staging"] = 1 },
			"Mon 13:00 dev unstarted>active; Mon 13:16 dev active>done; Mon 15:00 staging unstarted>canary; Mon 15:09 staging halted", "no group goes on by itself", "halted", "10 0 0",
		},
		{
			"canaries that are lost halt too", three, fleet, func(s *Scenario) { s.Lost["staging"] = 1 },
			"Mon 13:00 dev unstarted>active; Mon 13:16 dev active>done; Mon 15:00 staging unstarted>canary; Mon 15:25 staging halted", "no group goes on by itself", "halted", "10 0 0",
		},
		{
			"a guarded group halts at the first failure", three, fleet, func(s *Scenario) { s.Fails["prod"] = 0.02 },
			"Mon 13:00 dev unstarted>active; Mon 13:16 dev active>done; Mon 15:00 staging unstarted>canary; Mon 15:15 staging canary>active; Mon 15:29 staging active>done; Tue 15:29 prod unstarted>active; Tue 16:36 prod halted",
			"no group goes on by itself", "halted", "",
		},
		{
			"example 1, a group that is done on Friday lets the next one start on Monday",
			`schedules: {regular: [{name: dev, days: ["*"], start_hour: 16}, {name: prod, days: [Mon, Tue, Wed, Thu, Fri], start_hour: 15}]}`, map[string]int{"dev": 5, "prod": 5},
			func(s *Scenario) { s.Begin = s.Begin.AddDate(0, 0, 4).Add(12 * time.Hour) },
			"Fri 16:00 dev unstarted>active; Fri 16:11 dev active>done; Mon 15:00 prod unstarted>active; Mon 15:17 prod active>done", "all groups are done", "done", "5 5",
		},
		{
			"windows across midnight", `strategy: time-based, maintenance_window_duration: 2h, schedules: {regular: [{name: night, days: [Tue], start_hour: 23}]}`, map[string]int{"night": 20}, nil,
			"Tue 23:00 night unstarted>active; Wed 01:00 night active>done", "all groups are done", "done", "20",
		},
		{
			"a plain group without hosts is done after its hour", `schedules: {regular: [{name: dev, start_hour: 13}]}`, map[string]int{"dev": 0}, nil,
			"Mon 13:00 dev unstarted>active; Mon 14:00 dev active>done", "all groups are done", "over", "0",
		},
		{
			"hosts of no group are in the last one", `schedules: {regular: [{name: dev, start_hour: 13}]}`, map[string]int{"": 10}, nil,
			"Mon 13:00 dev unstarted>active; Mon 13:16 dev active>done", "all groups are done", "done", "9",
		},
		{
			"a plain group that cannot come to its end is halted", `schedules: {regular: [{name: dev, start_hour: 13}]}`, map[string]int{"dev": 10}, func(s *Scenario) { s.Fails[""] = 1 },
			"Mon 13:00 dev unstarted>active; Mon 13:06 dev halted", "no group goes on by itself", "halted", "0",
		},
		{"updates that are suspended", strings.Replace(three, "schedules", "strategy: halt-on-error, schedules", 1), fleet, func(s *Scenario) { s.Version.Spec.Agents.Mode = rollout.Suspended }, "", "updates are suspended: nothing happens", "suspended", "0 0 0"},
		{"every host at once", three, map[string]int{"": 10}, func(s *Scenario) { s.Version.Spec.Agents.Schedule = rollout.Immediate }, "", "all hosts that can be are on the version", "immediate", ""},
		{"a schedule without groups", "unmatched: hold", map[string]int{"": 10}, nil, "", "no group goes on by itself", "empty", ""},
		{"the end of the time", three, fleet, func(s *Scenario) { s.For = time.Hour }, "", "the time of the simulation is over", "waiting", "0 0 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := scenario(t, tc.agents, tc.hosts)
			if tc.edit != nil {
				tc.edit(&s)
			}
			r := run(t, s)
			if got := steps(r); got != tc.steps {
				t.Errorf("the steps are\n%s\nwant\n%s", got, tc.steps)
			}
			if r.Why != tc.why || r.End.Word != tc.word {
				t.Errorf("it ends as %s since %s; want %s since %s", r.End.Word, r.Why, tc.word, tc.why)
			}
			var upToDate []string
			for _, g := range r.End.Groups {
				upToDate = append(upToDate, fmt.Sprint(g.UpToDate))
			}
			if got := strings.Join(upToDate, " "); tc.upToDate != "" && got != tc.upToDate {
				t.Errorf("%s hosts are on the version; want %s", got, tc.upToDate)
			}
			for _, use := range r.Rules {
				if use.Times < 1 || use.Rule == "" || strings.HasPrefix(use.Rule, "the same") {
					t.Errorf("a rule that says nothing: %+v", use)
				}
			}
		})
	}
}

// The same scenario has the same report; another seed has another.
func TestASeedDecidesAllLots(t *testing.T) {
	s := scenario(t, three, map[string]int{"dev": 10, "staging": 50, "prod": 200})
	s.Fails[""], s.Lost[""] = 0.05, 0.01
	text := func(seed uint64) string {
		s.Seed = seed
		data, err := json.Marshal(run(t, s))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first := text(7)
	for range 5 {
		if first != text(7) {
			t.Error("the same seed has two reports")
		}
	}
	if first == text(8) {
		t.Error("two seeds have one report")
	}
}

// What holds of every rollout holds in simulations, whatever the lots: no more hosts in
// flight than the limit, and nobody before the groups that have to be done before.
func TestSimulationsKeepTheRules(t *testing.T) {
	for seed := range uint64(10) {
		s := scenario(t, three, map[string]int{"dev": 5, "staging": 20, "prod": 60})
		s.Seed, s.Fails["prod"], s.Lost[""] = seed, 0.02, 0.01
		r := run(t, s)
		doneAt := make(map[string]time.Time)
		for _, e := range r.Events {
			if strings.HasSuffix(e.What, "→ done") {
				doneAt[e.Group] = e.Time
			}
			before := map[string]string{"staging": "dev", "prod": "staging"}[e.Group]
			if e.Reason != "" && before != "" && doneAt[before].IsZero() {
				t.Fatalf("seed %d: %s moves at %s, and %s is not done:\n%s", seed, e.Group, e.Time, before, steps(r))
			}
		}
		if in := r.End.Groups[2].InFlight; in > 6 {
			t.Errorf("seed %d: %d hosts of prod are in flight", seed, in)
		}
	}
}

// A host on which the version failed waits before it tries again, longer each time.
func TestSimulatedHostsBackOff(t *testing.T) {
	s := scenario(t, `strategy: time-based, maintenance_window_duration: 12h, schedules: {regular: [{name: dev, start_hour: 13}]}`, map[string]int{"dev": 1})
	s.Fails["dev"] = 1
	var before time.Time
	least := time.Duration(0)
	for _, e := range run(t, s).Events {
		if e.What != "dev-1 rolls 1.1.0 back" {
			continue
		}
		if !before.IsZero() {
			if gap := e.Time.Sub(before); gap < least+time.Hour {
				t.Errorf("it tries again after %s", gap)
			}
			least += time.Hour
		}
		before = e.Time
	}
	if least != 2*time.Hour {
		t.Errorf("it has tried %s apart at the end", least)
	}
}

// A scenario that cannot be tried is refused before it begins.
func TestScenariosThatAreRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Scenario)
		want string
	}{
		{"no configuration", func(s *Scenario) { s.Config = nil }, "a configuration and a version are needed"},
		{"no version", func(s *Scenario) { s.Version = nil }, "a configuration and a version are needed"},
		{"fewer hosts than none", func(s *Scenario) { s.Hosts["dev"] = -1 }, "-1 is not a number of hosts"},
		{"more hosts than there is memory for", func(s *Scenario) { s.Hosts["dev"] = MaxHosts + 1 }, "is not a number of hosts"},
		{"too many in all", func(s *Scenario) { s.Hosts["dev"], s.Hosts["x"] = MaxHosts, 1 }, "are more than"},
		{"a rate above all", func(s *Scenario) { s.Fails["dev"] = 1.01 }, "a rate is a part"},
		{"a rate below none", func(s *Scenario) { s.Lost["dev"] = -0.1 }, "a rate is a part"},
		{"a rate that is no number", func(s *Scenario) { s.Fails[""] = math.NaN() }, "a rate is a part"},
		{"a rate of nobody", func(s *Scenario) { s.Fails["typo"] = 0.1 }, `group "typo" has a rate, but no hosts`},
		{"polls without a pause", func(s *Scenario) { s.Poll = 0 }, "too short"},
		{"updates that take no time", func(s *Scenario) { s.Update = time.Millisecond }, "too short"},
		{"no time at all", func(s *Scenario) { s.For = -time.Hour }, "too short"},
		{"a spread below zero", func(s *Scenario) { s.Spread = -1 }, "must not be negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := scenario(t, three, map[string]int{"dev": 1})
			tc.edit(&s)
			if _, err := Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it says %v; want %s", err, tc.want)
			}
		})
	}
}

// A simulation has nothing of its own that decides: below it is the engine alone.
func TestASimulationImportsTheEngineAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(path, "teleport-update/") && path != "teleport-update/find/rollout" {
			t.Errorf("it imports %s", path)
		}
	}
}

// A critical version comes through the regular groups under time-based, with a plan
// and without, and nothing is pointed out on the way.
func TestACriticalVersionEndsUnderTimeBased(t *testing.T) {
	s := scenario(t, `strategy: time-based, maintenance_window_duration: 2h, schedules: {regular: [{name: eu, days: ["*"], start_hour: 4, max_in_flight: 20%}, {name: us, days: ["*"], start_hour: 6}]}`,
		map[string]int{"eu": 10, "us": 10})
	s.Version.Spec.Agents.Schedule = rollout.Critical
	for seed := range uint64(20) {
		s.Seed = seed
		r := run(t, s)
		if r.Why != "all groups are done" || r.End.Word != "done" {
			t.Errorf("seed %d: it ends as %s, %s: %s", seed, r.End.Word, r.Why, r.End.Sentence)
		}
		for _, e := range r.Events {
			if strings.Contains(e.What, "Stalled") || strings.Contains(e.What, "halted") {
				t.Errorf("seed %d: %s %s: %s", seed, e.Time, e.Group, e.What)
			}
		}
	}
}
