package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/answers"
	"teleport-update/find/store"
)

// computed is what an engine looked at last.
type computed struct {
	counts rollout.Counts
	now    time.Time
	order  *rollout.Order
}

// follows computes a rollout once more, from what there was.
func follows(t *testing.T, before map[string]store.Item, item store.Item, audit store.Audit, from computed) string {
	t.Helper()
	n, err := answers.ParseResources(slices.Collect(maps.Values(before)))
	if err != nil {
		return err.Error()
	}
	next := parseAll(t, string(item.Value))[0].(*rollout.Rollout)
	var result rollout.Result
	if o := from.order; o != nil {
		result, err = o.Apply(n.Config, n.Version, n.Rollout, from.counts, audit.Time)
	} else if n.Rollout == nil || !n.Rollout.Of(n.Version) {
		result = rollout.Next(n.Config, n.Version, n.Rollout, rollout.Counts{}, next.Status.StartTime)
	} else {
		result = rollout.Next(n.Config, n.Version, n.Rollout, from.counts, from.now)
	}
	if err != nil {
		return err.Error()
	}
	result.Rollout.Metadata.Revision = 0
	again, err := rollout.JSON(result.Rollout)
	if err != nil || !bytes.Equal(again, item.Value) {
		return fmt.Sprintf("it is not what comes of the one before (%v):\n%s\n%s", err, item.Value, again)
	}
	return legal(n.Rollout, next, from.order)
}

// legal compares a rollout with the one before.
func legal(before, after *rollout.Rollout, o *rollout.Order) string {
	if before == nil || !after.Status.StartTime.Equal(before.Status.StartTime) || after.Spec.TargetVersion != before.Spec.TargetVersion ||
		o != nil && o.Verb == rollout.Reset {
		for _, g := range after.Status.Groups {
			if g.State != rollout.Unstarted {
				return "a new rollout begins with a group that is " + string(g.State)
			}
		}
		return ""
	}
	if o != nil {
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

// unreachable says whether a page belongs to no plan.
func unreachable(t *testing.T, s store.Store) string {
	t.Helper()
	items, _, err := s.List(t.Context(), rollout.KindPlan)
	if err != nil {
		t.Fatal(err)
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

func envNumber(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
