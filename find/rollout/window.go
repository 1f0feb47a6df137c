package rollout

import (
	"fmt"
	"slices"
	"strings"
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

// Window is when the hosts of a group may update.
type Window struct {
	Days []Day // as in Group
	Hour int   // UTC
	// Length is how long it is from then on, past midnight too.
	Length time.Duration
	// Any says that neither days nor hours count.
	Any bool
}

// Window returns the window of a group in the rollout. A host of no known group gets
// the window of the last group. There is no window if there are no groups, or if such a
// host is held.
func (s *Snapshot) Window(group string) (Window, bool) {
	r := s.rollout
	if r.Spec.Schedule == Immediate {
		return Window{Any: true}, true
	}
	i, matched := s.groups[group]
	if !matched {
		i = len(r.Status.Groups) - 1
	}
	if i < 0 || s.hold && !matched {
		return Window{}, false
	}
	g := &r.Status.Groups[i]
	w := Window{Days: g.ConfigDays, Hour: g.ConfigStartHour, Length: startTime, Any: r.Spec.AnyHour}
	if r.Spec.Strategy == TimeBased {
		w.Length = time.Duration(r.Spec.Window)
	}
	return w, true
}

// calendarEvery is how often a timer fires within a window. A group has not started yet
// in the second in which its window begins, so a host must ask again later.
const calendarEvery = 10 * time.Minute

// OnCalendar returns the window as lines for OnCalendar= of a systemd timer, all of
// which are needed (systemd.time(7)). It fires every ten minutes within the window.
func (w Window) OnCalendar() []string {
	if w.Any {
		return []string{"*-*-* *:00/10:00 UTC"}
	}
	// Hours that fire at the same minutes, on the same days, are one line.
	type line struct {
		later   int // days after the one on which the window begins
		minutes string
	}
	var lines []line
	hours := make(map[line][]string)
	for at := time.Duration(0); at < max(w.Length, time.Minute); {
		hour := w.Hour + int(at/time.Hour)
		var minutes []string
		for end := at.Truncate(time.Hour) + time.Hour; at < end && at < max(w.Length, time.Minute); at += calendarEvery {
			minutes = append(minutes, fmt.Sprintf("%02d", int(at%time.Hour/time.Minute)))
		}
		l := line{hour / 24, strings.Join(minutes, ",")}
		if len(hours[l]) == 0 {
			lines = append(lines, l)
		}
		hours[l] = append(hours[l], fmt.Sprintf("%02d", hour%24))
	}
	var text []string
	for _, l := range lines {
		text = append(text, fmt.Sprintf("%s*-*-* %s:%s:00 UTC", daysAfter(w.Days, l.later), strings.Join(hours[l], ","), l.minutes))
	}
	return text
}

// daysAfter are the days so many days after the allowed ones, as systemd writes them.
func daysAfter(days []Day, later int) string {
	if len(days) == 0 {
		days = usualDays
	}
	if slices.Contains(days, EveryDay) {
		return ""
	}
	var names []string
	for i := range week {
		i = (i + 1) % 7 // systemd's weeks begin on Monday
		if slices.Contains(days, week[(i+7-later)%7]) {
			names = append(names, string(week[i]))
		}
	}
	if len(names) == 7 {
		return ""
	}
	return strings.Join(names, ",") + " "
}
