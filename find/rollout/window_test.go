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

func TestWindows(t *testing.T) {
	every := []Day{EveryDay}
	for _, tc := range []struct {
		name   string
		days   []Day
		hour   int
		length time.Duration
		now    string
		inside bool
		next   string
	}{
		{"before it", []Day{"Mon"}, 4, time.Hour, "Mon 03:59", false, "Mon 04:00"},
		{"at its start", []Day{"Mon"}, 4, time.Hour, "Mon 04:00", true, "Mon 04:00"},
		{"at its end", []Day{"Mon"}, 4, time.Hour, "Mon 05:00", false, "next Mon 04:00"},
		{"after midnight", []Day{"Mon"}, 23, 3 * time.Hour, "Tue 01:59", true, "Tue 01:59"},
		{"after midnight, over", []Day{"Mon"}, 23, 3 * time.Hour, "Tue 02:00", false, "next Mon 23:00"},
		{"after midnight of a day that is not allowed", []Day{"Tue"}, 23, 3 * time.Hour, "Tue 01:59", false, "Tue 23:00"},
		{"a day long", every, 4, 24 * time.Hour, "Wed 03:59", true, "Wed 03:59"},
		{"a whole week later", []Day{"Sun"}, 0, time.Hour, "Sun 01:00", false, "next Sun 00:00"},
		{"on the usual days", nil, 4, time.Hour, "Fri 04:30", false, "next Mon 04:00"},
	} {
		if _, inside := windowAt(tc.days, tc.hour, tc.length, when(tc.now)); inside != tc.inside {
			t.Errorf("%s: inside %v", tc.name, inside)
		}
		want := tc.next
		week := 0
		if len(want) > 9 {
			want, week = want[5:], 7
		}
		if next := nextWindow(tc.days, tc.hour, tc.length, when(tc.now)); !next.Equal(when(want).AddDate(0, 0, week)) {
			t.Errorf("%s: next %s; want %s", tc.name, next, tc.next)
		}
	}
	// Hours are UTC's, wherever the server is.
	there := time.FixedZone("there", -8*60*60)
	if _, inside := windowAt([]Day{"Tue"}, 1, time.Hour, when("Tue 01:30").In(there)); !inside {
		t.Error("an hour of another zone counts")
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
