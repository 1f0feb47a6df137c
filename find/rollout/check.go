package rollout

import (
	"errors"
	"fmt"
	"time"
)

const (
	maxCanaries  = 5
	maxWaitHours = 7 * 24
	maxWindow    = 24 * time.Hour
	// maxGroupName leaves room for any name in use; hosts send theirs in a URL.
	maxGroupName = 200
)

// Check implements Resource.
func (c *Config) Check() error {
	if err := checkHead(c.Kind, KindConfig, c.Version, c.Metadata, NameConfig); err != nil {
		return err
	}
	agents := c.Spec.Agents
	window := time.Duration(agents.Window)
	switch {
	case window != 0 && agents.Strategy != TimeBased:
		return errors.New("spec.agents.maintenance_window_duration: it is for the strategy time-based only")
	case window < 0 || window > maxWindow:
		return fmt.Errorf("spec.agents.maintenance_window_duration: %s is not between 0 and %s", window, maxWindow)
	}
	names := make(map[string]bool)
	for i, g := range agents.Schedules.Regular {
		path := fmt.Sprintf("spec.agents.schedules.regular[%d]", i)
		if err := g.check(path, agents.Strategy); err != nil {
			return err
		}
		if names[g.Name] {
			return fmt.Errorf("%s.name: there is another group %s", path, excerpt(g.Name))
		}
		names[g.Name] = true
	}
	return nil
}

func (g Group) check(path string, strategy Strategy) error {
	switch {
	case g.Name == "":
		return fmt.Errorf("%s.name: it is missing", path)
	case len(g.Name) > maxGroupName:
		return fmt.Errorf("%s.name: it is longer than %d bytes", path, maxGroupName)
	case g.StartHour == nil:
		return fmt.Errorf("%s.start_hour: it is missing (the hour in UTC, 0 to 23)", path)
	case *g.StartHour < 0 || *g.StartHour > 23:
		return fmt.Errorf("%s.start_hour: %d is not an hour from 0 to 23", path, *g.StartHour)
	case g.WaitHours < 0 || g.WaitHours > maxWaitHours:
		return fmt.Errorf("%s.wait_hours: %d is not between 0 and %d", path, g.WaitHours, maxWaitHours)
	case g.CanaryCount < 0 || g.CanaryCount > maxCanaries:
		return fmt.Errorf("%s.canary_count: %d is not between 0 and %d", path, g.CanaryCount, maxCanaries)
	case strategy == TimeBased && g.WaitHours > 0:
		return fmt.Errorf("%s.wait_hours: it is for the strategy halt-on-error only", path)
	case strategy == TimeBased && g.CanaryCount > 0:
		return fmt.Errorf("%s.canary_count: it is for the strategy halt-on-error only", path)
	}
	seen := make(map[Day]bool)
	for i, day := range g.Days {
		if seen[day] {
			return fmt.Errorf("%s.days[%d]: %s is there twice", path, i, day)
		}
		seen[day] = true
	}
	return nil
}

// Check implements Resource.
func (v *Version) Check() error {
	if err := checkHead(v.Kind, KindVersion, v.Version, v.Metadata, NameVersion); err != nil {
		return err
	}
	if v.Spec.Agents.TargetVersion == "" {
		return errors.New("spec.agents.target_version: it is missing")
	}
	return nil
}

func checkHead(kind, wantKind, api string, m Metadata, name string) error {
	switch {
	case kind != wantKind:
		return fmt.Errorf("kind: %s is not %s", excerpt(kind), wantKind)
	case api != "" && api != apiVersion:
		return fmt.Errorf("version: %s is not %s, the version of the format", excerpt(api), apiVersion)
	case m.Name == "":
		return fmt.Errorf("metadata.name: it is missing (the only one of its kind is %s)", name)
	case m.Name != name:
		return fmt.Errorf("metadata.name: %s is not %s, the only one of its kind", excerpt(m.Name), name)
	case m.Revision < 0:
		return fmt.Errorf("metadata.revision: %d is none", m.Revision)
	}
	return nil
}
