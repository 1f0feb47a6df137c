package rollout

import (
	"slices"
	"time"
)

const (
	// startTime is how long a group of the strategy halt-on-error may start after
	// its start_hour.
	startTime = time.Hour
	// defaultWindow is the default of maintenance_window_duration.
	defaultWindow = time.Hour
)

// usualDays are the days of a group that sets no days.
var usualDays = []Day{"Mon", "Tue", "Wed", "Thu"}

// allowed reports whether a window may begin on a day of the week.
func allowed(days []Day, on time.Weekday) bool {
	if len(days) == 0 {
		days = usualDays
	}
	return slices.Contains(days, EveryDay) || slices.Contains(days, week[on])
}

// window is the time from a start_hour on an allowed day on. Its end is not in it.
type window struct{ from, to time.Time }

// windowAt returns the window that a moment is in. One that began yesterday goes on
// after midnight: the day that counts is the one it began on.
func windowAt(days []Day, hour int, length time.Duration, now time.Time) (window, bool) {
	now = now.UTC()
	for back := range 2 { // no window is longer than a day
		from := time.Date(now.Year(), now.Month(), now.Day()-back, hour, 0, 0, 0, time.UTC)
		w := window{from, from.Add(length)}
		if allowed(days, from.Weekday()) && !now.Before(w.from) && now.Before(w.to) {
			return w, true
		}
	}
	return window{}, false
}

// nextWindow returns when the first window begins that is not over at a moment: the
// moment itself inside of one.
func nextWindow(days []Day, hour int, length time.Duration, now time.Time) time.Time {
	now = now.UTC()
	if _, inside := windowAt(days, hour, length, now); inside {
		return now
	}
	for ahead := range 8 {
		from := time.Date(now.Year(), now.Month(), now.Day()+ahead, hour, 0, 0, 0, time.UTC)
		if allowed(days, from.Weekday()) && from.After(now) {
			return from
		}
	}
	panic("a week has no allowed day") // allowed takes at least one
}
