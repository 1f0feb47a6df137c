package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
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
