package rollout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

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

// The lines are what systemd takes for OnCalendar=, and each time that it makes of them
// is in the window. The real program says so.
func TestWindowsAsSystemdReadsThem(t *testing.T) {
	if testing.Short() {
		t.Skip("it asks systemd-analyze a hundred times")
	}
	program, err := exec.LookPath("systemd-analyze")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip("SKIPPED, nothing was tested: systemd-analyze is not installed")
	}
	for _, tc := range []struct {
		window Window
		want   []string
	}{
		{Window{Hour: 13, Length: time.Hour, Days: []Day{EveryDay}}, []string{"*-*-* 13:00,10,20,30,40,50:00 UTC"}},
		{Window{Hour: 0, Length: time.Hour}, []string{"Mon,Tue,Wed,Thu *-*-* 00:00,10,20,30,40,50:00 UTC"}},
		{Window{Hour: 23, Length: 2 * time.Hour, Days: []Day{"Sun", "Wed"}}, []string{"Wed,Sun *-*-* 23:00,10,20,30,40,50:00 UTC", "Mon,Thu *-*-* 00:00,10,20,30,40,50:00 UTC"}},
		{Window{Hour: 4, Length: 90 * time.Minute, Days: []Day{"Mon"}}, []string{"Mon *-*-* 04:00,10,20,30,40,50:00 UTC", "Mon *-*-* 05:00,10,20:00 UTC"}},
		{Window{Hour: 4, Length: 3 * time.Hour, Days: []Day{"Mon"}}, []string{"Mon *-*-* 04,05,06:00,10,20,30,40,50:00 UTC"}},
		{Window{Hour: 4, Length: time.Second, Days: []Day{"Mon"}}, []string{"Mon *-*-* 04:00:00 UTC"}},
		{Window{Hour: 1, Length: 24 * time.Hour, Days: []Day{"Mon"}}, []string{
			"Mon *-*-* 01,02,03,04,05,06,07,08,09,10,11,12,13,14,15,16,17,18,19,20,21,22,23:00,10,20,30,40,50:00 UTC", "Tue *-*-* 00:00,10,20,30,40,50:00 UTC"}},
		{Window{Any: true}, []string{"*-*-* *:00/10:00 UTC"}},
	} {
		if got := tc.window.OnCalendar(); strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
			t.Errorf("%+v is\n%s\nwant\n%s", tc.window, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
	lots := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		w := Window{Hour: lots.IntN(24), Length: time.Duration(1+lots.IntN(24*60)) * time.Minute}
		for _, day := range append([]Day{}, week...) {
			if lots.IntN(3) == 0 {
				w.Days = append(w.Days, day)
			}
		}
		fires := make(map[time.Time]bool)
		for _, line := range w.OnCalendar() {
			out, err := exec.Command(program, "calendar", "--base-time=2025-06-01 23:59:59 UTC", "--iterations=1200", line).CombinedOutput()
			if err != nil {
				t.Fatalf("systemd does not take %q: %v\n%s", line, err, out)
			}
			for at := range strings.Lines(string(out)) {
				// "(in UTC)" follows where the machine has another zone.
				for _, mark := range []string{"Next elapse: ", "(in UTC): ", "Iteration #", "Iter. #"} {
					if _, text, ok := strings.Cut(at, mark); ok {
						if _, after, cut := strings.Cut(text, ": "); cut {
							text = after
						}
						if parsed, err := time.Parse("Mon 2006-01-02 15:04:05 MST", strings.TrimSpace(text)); err == nil && parsed.Location() == time.UTC {
							fires[parsed] = true
						}
					}
				}
			}
		}
		name := fmt.Sprintf("%v %02d:00 for %s", w.Days, w.Hour, w.Length)
		if len(fires) < 6 {
			t.Errorf("%s: it fires %d times", name, len(fires))
		}
		for at := range fires {
			if _, inside := windowAt(w.Days, w.Hour, w.Length, at); !inside {
				t.Errorf("%s: it fires at %s", name, at)
			}
		}
		// Each window of a week has its first minute in it.
		for day := range 7 {
			from := monday.AddDate(0, 0, day).Add(time.Duration(w.Hour) * time.Hour)
			if allowed(w.Days, from.Weekday()) && !fires[from] {
				t.Errorf("%s: it does not fire at %s", name, from)
			}
		}
	}
}
