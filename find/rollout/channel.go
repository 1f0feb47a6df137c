package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Channel returns the version for updaters of RFD 0109 that follow a group, and whether
// it is critical. Such an updater moves to any version that it gets: in its window or,
// if the version is critical, at once. So Channel returns only the version that hosts
// of the group shall update to now. It returns none before the turn of the group, if
// updates are disabled or suspended, if the group is halted, and while only some of its
// hosts have their turn. Without a version, an updater stays as it is. Only the target
// is ever critical: nobody hurries back.
func (s *Snapshot) Channel(group string, now time.Time) (v Semver, critical bool) {
	a := s.Find(Query{Group: group}, now)
	if !a.AutoUpdate {
		return "", false
	}
	hurry := s.rollout.Spec.Schedule == Critical || s.rollout.Spec.Schedule == Immediate
	return a.Version, hurry && a.Version == s.rollout.Spec.TargetVersion
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
