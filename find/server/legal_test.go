package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/store"
)

// history goes through the writes in the order of their revisions.
func (d *duel) history() string {
	slices.SortFunc(d.writes, func(a, b written) int { return int(a.at - b.at) })
	now := make(map[string]store.Item) // the resources, at that revision
	for _, item := range d.initial {
		now[item.Key] = item
	}
	for _, wr := range d.writes {
		before := maps.Clone(now)
		based := 0
		for i, x := range wr.change.Writes {
			if !slices.Contains(resourceKinds, x.Key) {
				continue
			}
			based++
			if now[x.Key].Revision != x.Based {
				return fmt.Sprintf("revision %d is based on %s of revision %d, and there was %d", wr.at, x.Key, x.Based, now[x.Key].Revision)
			}
			if x.Do == store.Set {
				now[x.Key] = store.Item{Key: x.Key, Value: x.Value, Revision: wr.revisions[i]}
			}
		}
		if now[rollout.KindRollout].Revision == before[rollout.KindRollout].Revision {
			continue
		}
		if based != len(resourceKinds) {
			return fmt.Sprintf("revision %d, a rollout, is based on %d resources of %d", wr.at, based, len(resourceKinds))
		}
		if problem := d.follows(before, now[rollout.KindRollout], wr); problem != "" {
			return fmt.Sprintf("revision %d, by %s (%s): %s", wr.at, wr.change.Audit.Who, wr.change.Audit.What, problem)
		}
	}
	final, err := resourcesIn(d.t.Context(), d.w.other)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, item := range final {
		if item.Revision != now[item.Key].Revision {
			return fmt.Sprintf("%s has revision %d, and the last that was written is %d", item.Key, item.Revision, now[item.Key].Revision)
		}
	}
	return d.reachable()
}

// follows computes a rollout once more, from what there was.
func (d *duel) follows(before map[string]store.Item, item store.Item, wr written) string {
	n, err := answers.ParseResources(slices.Collect(maps.Values(before)))
	if err != nil {
		return err.Error()
	}
	next := parseAll(d.t, string(item.Value))[0].(*rollout.Rollout)
	var result rollout.Result
	if o := wr.from.order; o != nil {
		result, err = o.Apply(n.Config, n.Version, n.Rollout, wr.from.counts, wr.change.Audit.Time)
	} else if n.Rollout == nil || !n.Rollout.Of(n.Version) {
		result = rollout.Next(n.Config, n.Version, n.Rollout, rollout.Counts{}, next.Status.StartTime)
	} else {
		result = rollout.Next(n.Config, n.Version, n.Rollout, wr.from.counts, wr.from.now)
	}
	if err != nil {
		return err.Error()
	}
	result.Rollout.Metadata.Revision = 0
	again, err := rollout.JSON(result.Rollout)
	if err != nil || !bytes.Equal(again, item.Value) {
		return fmt.Sprintf("it is not what comes of the one before (%v):\n%s\n%s", err, item.Value, again)
	}
	return legal(n.Rollout, next, wr)
}

// legal compares a rollout with the one before.
func legal(before, after *rollout.Rollout, wr written) string {
	if before == nil || !after.Status.StartTime.Equal(before.Status.StartTime) || after.Spec.TargetVersion != before.Spec.TargetVersion ||
		wr.from.order != nil && wr.from.order.Verb == rollout.Reset {
		for _, g := range after.Status.Groups {
			if g.State != rollout.Unstarted {
				return "a new rollout begins with a group that is " + string(g.State)
			}
		}
		return ""
	}
	if wr.from.order != nil {
		return ""
	}
	order := []rollout.State{rollout.Unstarted, rollout.Canarying, rollout.Active, rollout.Done}
	for i, g := range after.Status.Groups {
		b := before.Status.Groups[i]
		from, to := slices.Index(order, b.State), slices.Index(order, g.State)
		switch {
		case to < from || to >= 0 && from < 0:
			return fmt.Sprintf("%s went from %s to %s", g.Name, b.State, g.State)
		case b.Halted != nil && (g.Halted == nil || to != from):
			return g.Name + " is not halted any more"
		case to > 0 && from == 0 && i > 0 && after.Status.Groups[i-1].State != rollout.Done:
			return fmt.Sprintf("%s started before %s was done", g.Name, after.Status.Groups[i-1].Name)
		}
		if b.Plan == nil || g.Plan == nil {
			continue
		}
		grown := g.Plan.LastActiveHostIndex - b.Plan.LastActiveHostIndex
		if grown < 0 || !g.Plan.StartTime.Equal(b.Plan.StartTime) || grown > 0 && g.Halted != nil {
			return fmt.Sprintf("the plan of %s went from %+v to %+v", g.Name, b.Plan, g.Plan)
		}
	}
	return ""
}

// reachable looks whether every page belongs to a plan.
func (d *duel) reachable() string {
	items, _, err := d.w.other.List(d.t.Context(), rollout.KindPlan)
	if err != nil {
		d.t.Fatal(err)
	}
	pages := make(map[string][]byte)
	for _, item := range items {
		pages[item.Key] = item.Value
	}
	reached := 0
	for key, head := range pages {
		if strings.HasPrefix(key, rollout.PageKey("")) {
			continue
		}
		_, names, err := rollout.ReadPlan(head, func(name string) ([]byte, error) {
			if page, ok := pages[rollout.PageKey(name)]; ok {
				return page, nil
			}
			return nil, store.ErrNotFound
		})
		if err != nil {
			return fmt.Sprintf("%s: %v", key, err)
		}
		reached += 1 + len(names)
	}
	if reached != len(pages) {
		return fmt.Sprintf("%d pages of %d can be reached", reached, len(pages))
	}
	return ""
}

var resourceKinds = []string{rollout.KindConfig, rollout.KindVersion, rollout.KindRollout}

// resourcesIn returns the resources that a rollout is computed from.
func resourcesIn(ctx context.Context, s store.Store) (list []store.Item, err error) {
	for _, kind := range resourceKinds {
		item, err := s.Get(ctx, kind)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}
