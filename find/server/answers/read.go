package answers

import (
	"context"
	"errors"
	"slices"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// Get returns the store's resource of a kind, or store.ErrNotFound. A kind with several
// resources needs a name.
func (s *Stored) Get(ctx context.Context, kind, name string) (rollout.Resource, error) {
	key := kind
	switch kind {
	case rollout.KindPlan:
		return s.plan(ctx, name)
	case rollout.KindReport:
		key = rollout.ReportKey(name)
	case rollout.KindNotify:
		key = rollout.NotifyKey(name)
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

// isOld reports whether a resource is a report that has expired.
func (s *Stored) isOld(r rollout.Resource) bool {
	report, ok := r.(*rollout.AgentReport)
	return ok && s.opts.Clock().Sub(report.Spec.Timestamp) > rollout.ReportLife
}

// plan returns the plan of a group without its hosts, and its progress.
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
				plan.Status = &rollout.PlanStatus{LastActiveHostIndex: g.Plan.LastActiveHostIndex, FailedHostCount: g.FailedCount,
					TimeoutHostCount: g.TimedOutCount}
			}
		}
	}
	return plan, nil
}

// All returns every resource in the store: the ones that people write, the rollout, the
// webhooks, the plans of its groups without their hosts, and the reports.
func (s *Stored) All(ctx context.Context) (list []rollout.Resource, err error) {
	items, _, err := s.opts.Store.List(ctx, resourcePrefix)
	if err != nil {
		return nil, err
	}
	list, err = written(items)
	if err != nil {
		return nil, err
	}
	plans, err := s.plansOf(ctx, list)
	if err != nil {
		return nil, err
	}
	reports, err := s.reports(items)
	return slices.Concat(list, plans, reports), err
}

// written returns the only resources of their kinds, in the order of Kinds, and the webhooks.
func written(items []store.Item) (list []rollout.Resource, err error) {
	for _, kind := range Kinds {
		for _, item := range items {
			if item.Key != kind {
				continue
			}
			r, err := parseStored(item)
			if err != nil {
				return nil, err
			}
			list = append(list, r)
		}
	}
	for _, item := range items {
		if !isNotify(item.Key) {
			continue
		}
		r, err := parseStored(item)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// plansOf returns the plans that the rollout in a list names. It leaves out a plan with
// missing pages.
func (s *Stored) plansOf(ctx context.Context, list []rollout.Resource) (plans []rollout.Resource, err error) {
	for _, r := range list {
		current, ok := r.(*rollout.Rollout)
		if !ok {
			continue
		}
		for _, g := range current.Status.Groups {
			if g.Plan == nil {
				continue
			}
			plan, err := s.plan(ctx, g.Name)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			plans = append(plans, plan)
		}
	}
	return plans, nil
}

// reports returns the reports of all servers, without expired ones.
func (s *Stored) reports(items []store.Item) (list []rollout.Resource, err error) {
	for _, item := range items {
		if !strings.HasPrefix(item.Key, rollout.ReportKey("")) {
			continue
		}
		item.Key = rollout.KindReport
		r, err := parseStored(item)
		if err != nil {
			return nil, err
		}
		if !s.isOld(r) {
			list = append(list, r)
		}
	}
	return list, nil
}
