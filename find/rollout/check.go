package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxCanaries  = 5
	maxWaitHours = 7 * 24
	maxWindow    = 24 * time.Hour
	// maxGroupName leaves room for any name in use; hosts send theirs in a URL.
	maxGroupName = 200
	// maxGroups and maxConfig bound the rollout, which is one value of the store
	// with a copy of the configuration and the canaries of every group.
	maxGroups = 256
	maxConfig = 128 << 10
	// maxSeconds bounds jitter, timeout and failure: a group has a day.
	maxSeconds = 24 * 60 * 60
	// minTimeout is RFD 0169's.
	minTimeout = 30
)

// Check implements Resource.
func (c *Config) Check() error {
	return c.check(func(schedule string, i int) string { return fmt.Sprintf("spec.agents.schedules.%s[%d]", schedule, i) })
}

// check names groups in the spelling of the input. It finds all faults.
func (c *Config) check(where func(schedule string, i int) string) error {
	var found faults
	found.add(checkHead(c.Kind, KindConfig, c.Version, c.Metadata, NameConfig))
	if data, err := json.Marshal(c); err != nil || len(data) > maxConfig {
		return errors.Join(err, fmt.Errorf("spec: it is larger than %d bytes", maxConfig))
	}
	agents := c.Spec.Agents
	window := time.Duration(agents.Window)
	const windowPath = "spec.agents.maintenance_window_duration"
	found.addf(window != 0 && agents.Strategy != TimeBased, "%s: it is for the strategy time-based only", windowPath)
	found.addf(window < 0 || window > maxWindow, "%s: %s is not between 0 and %s", windowPath, window, maxWindow)
	for _, schedule := range []struct {
		name   string
		groups []Group
	}{{"regular", agents.Schedules.Regular}, {"critical", agents.Schedules.Critical}} {
		found.add(checkGroups(schedule.groups, agents.Strategy, func(i int) string { return where(schedule.name, i) }))
	}
	if s := agents.Schedules.Immediate; s != nil {
		found.add(checkSeconds("spec.agents.schedules.immediate.jitter_seconds", s.JitterSeconds, 0))
	}
	return found.err()
}

func checkGroups(groups []Group, strategy Strategy, where func(i int) string) error {
	var found faults
	names := make(map[string]bool)
	for i, g := range groups {
		if i == maxGroups {
			found.addf(true, "%s: there are more than %d groups", where(i), maxGroups)
			break
		}
		found.add(g.check(where(i), strategy))
		found.addf(names[g.Name] && g.Name != "", "%s.name: there is another group %s", where(i), excerpt(g.Name))
		names[g.Name] = true
	}
	if len(found) > 0 {
		return found.err() // their order says nothing yet
	}
	return checkOrder(groups, strategy, where)
}

func (g Group) check(path string, strategy Strategy) error {
	var found faults
	found.add(g.checkName(path))
	switch {
	case g.StartHour == nil:
		found.addf(true, "%s.start_hour: it is missing (the hour in UTC, 0 to 23)", path)
	case *g.StartHour < 0 || *g.StartHour > 23:
		found.addf(true, "%s.start_hour: %d is not an hour from 0 to 23", path, *g.StartHour)
	}
	found.addf(g.WaitHours < 0 || g.WaitHours > maxWaitHours, "%s.wait_hours: %d is not between 0 and %d", path, g.WaitHours, maxWaitHours)
	found.addf(g.CanaryCount < 0 || g.CanaryCount > maxCanaries, "%s.canary_count: %d is not between 0 and %d", path, g.CanaryCount,
		maxCanaries)
	if strategy == TimeBased {
		const only = "it is for the strategy halt-on-error only"
		found.addf(g.WaitHours > 0, "%s.wait_hours: %s", path, only)
		found.addf(g.CanaryCount > 0, "%s.canary_count: %s", path, only)
		found.addf(len(g.Requires) > 0, "%s.requires: %s", path, only)
	}
	limits := g.maxTimeout() + g.maxFailed()
	found.addf(limits > 100, "%s.max_failed_before_halt: with max_timeout_before_halt it is %d%%, and there are no more than "+
		"100%% of the hosts", path, limits)
	seen := make(map[Day]bool)
	for i, day := range g.Days {
		found.addf(seen[day] && day != "", "%s.days[%d]: %s appears twice", path, i, day)
		seen[day] = true
	}
	found.add(checkSeconds(path+".jitter_seconds", g.JitterSeconds, 0))
	found.add(checkSeconds(path+".timeout_seconds", g.TimeoutSeconds, minTimeout))
	found.add(checkSeconds(path+".failure_seconds", g.FailureSeconds, 0))
	return found.err()
}

func (g Group) checkName(path string) error {
	switch {
	case g.Name == "":
		return fmt.Errorf("%s.name: it is missing", path)
	case len(g.Name) > maxGroupName:
		return fmt.Errorf("%s.name: it is longer than %d bytes", path, maxGroupName)
	case !utf8.ValidString(g.Name) || strings.ContainsFunc(g.Name, unicode.IsControl):
		return fmt.Errorf("%s.name: %s is not plain text", path, excerpt(g.Name))
	case strings.TrimSpace(g.Name) != g.Name:
		return fmt.Errorf("%s.name: %q begins or ends with a blank, which nobody sees", path, g.Name)
	}
	return nil
}

func checkSeconds(path string, seconds *int, least int) error {
	if seconds != nil && (*seconds < least || *seconds > maxSeconds) {
		return fmt.Errorf("%s: %d is not between %d and %d", path, *seconds, least, maxSeconds)
	}
	return nil
}

// Check implements Resource.
func (v *Version) Check() error {
	var found faults
	found.add(checkHead(v.Kind, KindVersion, v.Version, v.Metadata, NameVersion))
	found.addf(v.Spec.Agents.TargetVersion == "", "spec.agents.target_version: it is missing")
	return found.err()
}

// checkHead takes any name if the kind has no fixed one.
func checkHead(kind, wantKind, api string, m Metadata, name string) error {
	switch {
	case kind != wantKind:
		return fmt.Errorf("kind: %s is not %s", excerpt(kind), wantKind)
	case api != "" && api != apiVersion:
		return fmt.Errorf("version: %s is not %s, the version of the format", excerpt(api), apiVersion)
	case m.Name == "" && name == "":
		return errors.New("metadata.name: it is missing")
	case m.Name == "":
		return fmt.Errorf("metadata.name: it is missing (the only one of its kind is %s)", name)
	case m.Name != name && name != "":
		return fmt.Errorf("metadata.name: %s is not %s, the only one of its kind", excerpt(m.Name), name)
	case m.Revision < 0:
		return fmt.Errorf("metadata.revision: %d is not a revision", m.Revision)
	}
	return nil
}

// Limits bound the configurations that a server takes, for a server that others configure. Zero is no limit.
type Limits struct {
	// Groups is how many groups a schedule may have.
	Groups int
	// Days is how many days there may be from the start of the first group to the start of the last one. Days on which
	// no group may start do not count, so a schedule without Sundays is not longer.
	Days int
}

// Within returns an error that names everything beyond the limits. c has passed its
// Check.
func (c *Config) Within(l Limits) error {
	var found faults
	for _, schedule := range []struct {
		name   string
		groups []Group
	}{{"regular", c.Spec.Agents.Schedules.Regular}, {"critical", c.Spec.Agents.Schedules.Critical}} {
		path, groups := "spec.agents.schedules."+schedule.name, schedule.groups
		found.addf(l.Groups > 0 && len(groups) > l.Groups, "%s: there are %d groups, and this server takes no more than %d in a schedule", path,
			len(groups), l.Groups)
		if l.Days <= 0 || c.Spec.Agents.Strategy == TimeBased { // whose groups have their windows each day
			continue
		}
		hours := workingSpan(groups)
		found.addf(hours > 24*l.Days, "%s: from the start of the first group to that of the last one it takes %d hours, and this "+
			"server takes no more than %d days", path, hours, l.Days)
	}
	return found.err()
}

// workingSpan returns the most hours from the start of the first group to the start of the last one, if groups may
// start on each day.
func workingSpan(groups []Group) (worst int) {
	daily := slices.Clone(groups)
	wait := make([][maxSpan]int, len(daily))
	for i := range daily {
		daily[i].Days = []Day{EveryDay}
		wait[i] = waits(daily[i])
	}
	direct := before(daily)
	order, _ := topological(direct)
	starts := make([]int, len(daily))
	for release := range 24 {
		first, last := -1, 0
		for _, i := range order {
			ready := release
			for _, j := range direct[i] {
				ready = max(ready, starts[j]+1+daily[i].WaitHours)
			}
			starts[i] = ready + wait[i][ready%maxSpan]
			if first < 0 || starts[i] < first {
				first = starts[i]
			}
			last = max(last, starts[i])
		}
		worst = max(worst, last-first)
	}
	return worst
}

// Faults is the error of a resource with several faults. It lists all of them, each with its path, so that one attempt
// shows them all.
type Faults struct{ list []error }

const (
	// maxFaults is how many faults are kept.
	maxFaults = 50
	// maxFaultText is how many bytes an error shows of them.
	maxFaultText = 1000
)

// Error implements error, in one line.
func (f *Faults) Error() string {
	text := f.list[0].Error()
	for i, err := range f.list[1:] {
		next := "; " + err.Error()
		if len(text)+len(next) > maxFaultText {
			return fmt.Sprintf("%s; and %d more", text, len(f.list)-1-i)
		}
		text += next
	}
	return text
}

// Unwrap returns all of them.
func (f *Faults) Unwrap() []error { return f.list }

// faults are the faults found so far.
type faults []error

// add adds the faults of an error, which may be nil.
func (f *faults) add(err error) {
	if err == nil {
		return
	}
	several, ok := errors.AsType[*Faults](err)
	list := []error{err}
	if ok {
		list = several.list
	}
	*f = append(*f, list[:min(len(list), maxFaults-len(*f))]...)
}

// addf adds a fault if wrong is true.
func (f *faults) addf(wrong bool, format string, args ...any) {
	if wrong {
		f.add(fmt.Errorf(format, args...))
	}
}

// full reports whether further faults are dropped.
func (f faults) full() bool { return len(f) >= maxFaults }

// err returns nil, the only fault, or all of them as *Faults.
func (f faults) err() error {
	switch len(f) {
	case 0:
		return nil
	case 1:
		return f[0]
	}
	return &Faults{f}
}

var linePrefix = regexp.MustCompile(`^line [0-9]+: `)

// pathOf is the path that the text of a fault begins with.
func pathOf(err error) string {
	path, _, _ := strings.Cut(linePrefix.ReplaceAllString(err.Error(), ""), ": ")
	return path
}

// following returns all faults, without those in found that only follow from a value that could not be read.
func following(unread, found error) error {
	var all faults
	all.add(unread)
	if found == nil {
		return all.err()
	}
	read := all
	var of faults
	of.add(found)
	for _, err := range of {
		fromUnread := false
		for _, before := range read {
			fromUnread = fromUnread || pathOf(err) == pathOf(before)
		}
		if !fromUnread {
			all.add(err)
		}
	}
	return all.err()
}
