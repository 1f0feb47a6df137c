package rollout

import (
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
