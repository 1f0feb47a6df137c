package answers

import (
	"context"
	"errors"
	"slices"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// Get returns the resource of a kind as it is in the store, or store.ErrNotFound.
// Kinds of which there are several need a name.
func (s *Stored) Get(ctx context.Context, kind, name string) (rollout.Resource, error) {
	key := kind
	switch kind {
	case rollout.KindPlan:
		return s.plan(ctx, name)
	case rollout.KindReport:
		key = rollout.ReportKey(name)
	}
	item, err := s.opts.Store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	item.Key = kind
	r, err := parseStored(item)
	if err == nil && s.isOld(r) {
		return nil, store.ErrNotFound
	}
	return r, err
}

// isOld reports whether a resource is a report that says nothing any more.
func (s *Stored) isOld(r rollout.Resource) bool {
	report, ok := r.(*rollout.Report)
	return ok && s.opts.Clock().Sub(report.Spec.Timestamp) > rollout.ReportLife
}

// plan returns the plan of a group without its hosts, and how far it has come.
func (s *Stored) plan(ctx context.Context, group string) (rollout.Resource, error) {
	item, err := s.opts.Store.Get(ctx, rollout.PlanKey(group))
	if err != nil {
		return nil, err
	}
	item.Key = rollout.KindPlan
	r, err := parseStored(item)
	if err != nil {
		return nil, err
	}
	plan := r.(*rollout.PlanResource)
	plan.Spec.Hosts, plan.Spec.NextPage = nil, ""
	if current := s.current.Load().Rollout; current != nil {
		for _, g := range current.Status.Groups {
			if g.Name == group && g.Plan != nil && g.Plan.StartTime.Equal(plan.Spec.StartTime) {
				plan.Status = &rollout.PlanStatus{LastActiveHostIndex: g.Plan.LastActiveHostIndex, FailedHostCount: g.FailedCount, TimeoutHostCount: g.TimedOutCount}
			}
		}
	}
	return plan, nil
}

// All returns every resource that is in the store: those that people write, the
// rollout, the plans of its groups without their hosts, and the reports.
func (s *Stored) All(ctx context.Context) (list []rollout.Resource, err error) {
	items, _, err := s.opts.Store.List(ctx, resourcePrefix)
	if err != nil {
		return nil, err
	}
	var reports []rollout.Resource
	for _, kind := range Kinds {
		for _, item := range items {
			if item.Key == kind {
				r, err := parseStored(item)
				if err != nil {
					return nil, err
				}
				list = append(list, r)
			}
		}
	}
	for _, item := range items {
		if strings.HasPrefix(item.Key, rollout.ReportKey("")) {
			item.Key = rollout.KindReport
			r, err := parseStored(item)
			if err != nil {
				return nil, err
			}
			if !s.isOld(r) {
				reports = append(reports, r)
			}
		}
	}
	for _, r := range slices.Clone(list) {
		if r, ok := r.(*rollout.Rollout); ok {
			for i := range r.Status.Groups {
				if g := &r.Status.Groups[i]; g.Plan != nil {
					plan, err := s.plan(ctx, g.Name)
					if errors.Is(err, store.ErrNotFound) {
						continue
					}
					if err != nil {
						return nil, err
					}
					list = append(list, plan)
				}
			}
		}
	}
	return append(list, reports...), nil
}
