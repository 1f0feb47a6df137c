package answers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
	"teleport-update/internal/version"
)

// snapshot holds everything that answers depend on. It never changes.
type snapshot struct {
	Resources

	find     *rollout.Snapshot // nil: no version is set, and base is the answer
	base     find.Answer
	editions map[rollout.Semver]version.Edition
	// unclear is why the releases do not say which edition a version has. Answers keep
	// the edition from before.
	unclear error
	plans   map[string]*rollout.Index // of groups
	broken  map[string]error          // groups whose plan cannot be read
	named   map[string]bool           // groups and versions of these resources
}

// answer returns the answer to a host at a moment.
func (n *snapshot) answer(q rollout.Query, now time.Time, mayUpdate bool) find.Answer {
	a := n.base
	if n.find == nil {
		_, held := n.Overrides.Of(rollout.ParseHostID(q.Host), q.Group, nil, now)
		a.AutoUpdate = a.AutoUpdate && mayUpdate && !held
		return a
	}
	answer := n.find.Find(q, now)
	a.Version = string(answer.Version)
	a.Edition = n.editions[answer.Version]
	a.AutoUpdate = answer.AutoUpdate && mayUpdate
	a.RetryFailed = answer.RetryFailed
	a.GroupUnknown = q.Group != "" && !answer.Matched && answer.Group >= 0
	if answer.Jitter >= 0 {
		a.Jitter = answer.Jitter
	}
	return a
}

// load returns the present snapshot of the store. If nothing has changed, and again is
// false, it is the one from before.
func (s *Stored) load(ctx context.Context, before *snapshot, again bool) (*snapshot, error) {
	for attempt := 1; ; attempt++ {
		items, at, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		if before != nil && at.mayLack(s.last) {
			s.rest(errOtherStore)
		}
		// The revision does not decide: a copy that was put back may have the same one.
		if before != nil && !again && reflect.DeepEqual(items, before.items) {
			s.last = at
			return before, nil
		}
		parsed, err := ParseResources(items)
		if err != nil {
			return nil, err
		}
		next := &snapshot{Resources: parsed}
		if err := s.decide(ctx, next); err != nil {
			return nil, err
		}
		s.last = at
		// A plan is read after the rollout that names it. The store may have another
		// rollout by then.
		if len(next.broken) == 0 || attempt == 3 {
			return next, nil
		}
		if now, err := ReadItems(ctx, s.opts.Store); err != nil || reflect.DeepEqual(now, items) {
			return next, err
		}
	}
}

// moment identifies a store and its revision at a read.
type moment struct {
	of store.Identity
	at store.Revision
}

// mayLack reports whether the store may have lost changes since another moment: it is another store or a copy now, its
// revision has fallen, or the epoch differs. If two standbys were promoted one after the other, the second may have the
// identity of the first.
func (m moment) mayLack(before moment) bool {
	return m.of != before.of || m.at < before.at || m.at/store.EpochStep != before.at/store.EpochStep
}

// read returns the resources of the store at one moment.
func (s *Stored) read(ctx context.Context) (items []store.Item, m moment, err error) {
	m.of = s.last.of
	for range parts.Attempts {
		if items, m.at, err = readItems(ctx, s.opts.Store); err != nil {
			return nil, m, err
		}
		is, err := s.opts.Store.Identity(ctx)
		if err != nil {
			return nil, m, err
		}
		if is == m.of {
			return items, m, nil
		}
		m.of = is // the items may be from the store before
	}
	return nil, m, store.ErrReplaced
}

// names returns the groups and versions of these resources.
func (n *snapshot) names() map[string]bool {
	named := map[string]bool{n.base.Version: true}
	if n.Config != nil {
		schedules := n.Config.Spec.Agents.Schedules
		for _, g := range slices.Concat(schedules.Regular, schedules.Critical) {
			named[g.Name] = true
		}
	}
	if n.Version != nil {
		named[string(n.Version.Spec.Agents.StartVersion)] = true
		named[string(n.Version.Spec.Agents.TargetVersion)] = true
	}
	if n.Rollout != nil {
		named[string(n.Rollout.Spec.StartVersion)], named[string(n.Rollout.Spec.TargetVersion)] = true, true
		for i := range n.Rollout.Status.Groups {
			named[n.Rollout.Status.Groups[i].Name] = true
		}
	}
	return named
}

// decide derives the answers from these resources.
func (s *Stored) decide(ctx context.Context, n *snapshot) (err error) {
	n.base = s.opts.Base
	n.named = n.names()
	if n.Config != nil {
		n.base.ToolsAutoUpdate = n.Config.Spec.Tools.Mode == rollout.ToolsEnabled
	}
	if n.Version == nil {
		// The mode holds for the version of the releases too.
		n.base.AutoUpdate = rollout.EffectiveMode(n.Config, nil) == rollout.Enabled
		n.base, err = served(n.base)
		return err
	}
	if n.plans, n.broken, err = s.plans.Load(ctx, n.Rollout); err != nil {
		return err
	}
	n.base.ToolsVersion = string(n.Version.Spec.Tools.TargetVersion)
	n.find = rollout.NewSnapshot(n.Config, n.Version, n.Rollout, n.plans).With(n.Overrides)
	n.editions = make(map[rollout.Semver]version.Edition)
	spec := n.find.Rollout().Spec
	for _, v := range []rollout.Semver{spec.TargetVersion, spec.StartVersion} {
		if n.editions[v], err = s.edition(string(v)); err == nil {
			continue
		}
		// New files in the folder must not keep anybody from stopping updates.
		before := s.current.Load()
		if before == nil || before.editions[v] == "" {
			return err
		}
		n.editions[v], n.unclear = before.editions[v], err
	}
	others := n.find.Rollout().Versions()[1:]
	for _, o := range n.Overrides {
		others = append(others, cmp.Or(o.To, spec.TargetVersion))
	}
	for _, v := range others {
		if n.editions[v] != "" {
			continue
		}
		// If the releases do not know the version of a rollback, hosts stay on the
		// edition of the target.
		if n.editions[v], err = s.edition(string(v)); err != nil {
			n.editions[v], n.unclear = n.editions[spec.TargetVersion], err
		}
	}
	return errors.Join(s.check(n, spec.TargetVersion), s.check(n, spec.StartVersion))
}

// served returns the answer as hosts get it.
func served(a find.Answer) (find.Answer, error) {
	if a.Version == "" {
		a.AutoUpdate = false
	}
	return a, a.Check()
}

// check makes sure that every answer can be served.
func (s *Stored) check(n *snapshot, v rollout.Semver) error {
	a := n.base
	a.Version, a.Edition = string(v), n.editions[v]
	return a.Check()
}

func (s *Stored) edition(v string) (version.Edition, error) {
	if s.opts.Edition != "" || s.opts.Releases == nil {
		return cmp.Or(s.opts.Edition, s.opts.Base.Edition), nil
	}
	edition, err := s.opts.Releases.EditionOf(v)
	if err != nil {
		return "", fmt.Errorf(`%w, by "teleport-find serve --edition" or TELEPORT_FIND_EDITION in /etc/default/teleport-find`, err)
	}
	return cmp.Or(edition, s.opts.Base.Edition), nil
}

// line is the answer to hosts of one group, for the log.
type line struct{ group, version, update string }

// lines returns the answers to the groups, or one line for all if there are no groups.
func (n *snapshot) lines() []line {
	if n.find == nil {
		return []line{{"", n.base.Version, fmt.Sprint(n.base.AutoUpdate)}}
	}
	all := n.find.Rollout().Status.Groups
	if len(all) == 0 {
		a := n.find.Find(rollout.Query{}, time.Time{})
		return []line{{"", string(a.Version), a.Row.Update}}
	}
	var lines []line
	for i := range all {
		// For time-based groups, the words are the row's, whatever the time.
		a := n.find.Find(rollout.Query{Group: all[i].Name}, time.Time{})
		lines = append(lines, line{all[i].Name, string(a.Version), a.Row.Update})
	}
	return lines
}
