package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/simulate"
)

// estimateLimit bounds the time of an estimate: it is a help, and nobody waits for it.
const estimateLimit = 2 * time.Second

// worthSaying is how much later than the earliest time a group has to be expected.
const worthSaying = 5 * time.Minute

// estimates is when groups are expected to start, by a simulation with as many hosts as
// report. A group that nothing can be said of is missing.
func estimates(ctx context.Context, c *rollout.Config, v *rollout.Version, o rollout.Overview, at time.Time) map[string]time.Time {
	if v == nil || at.IsZero() || o.Mode != "" && o.Mode != rollout.Enabled {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, estimateLimit)
	defer cancel()
	tried, err := simulate.EstimateGroups(ctx, c, v, o, at)
	if err != nil {
		return nil
	}
	starts := make(map[string]time.Time)
	for name, e := range tried {
		if !e.Start.IsZero() {
			starts[name] = e.Start
		}
	}
	return starts
}

// estimatesNow are those of what the server has. It is asked by its own clock, which is
// that of its last tick.
func (a *adminClient) estimatesNow(ctx context.Context, o adminapi.Overview) map[string]time.Time {
	c, v := a.wanted(ctx)
	return estimates(ctx, c, v, o.Overview, o.Server.LastTick)
}

// wanted is the configuration and the version of the server; nil if there is none.
func (a *adminClient) wanted(ctx context.Context) (c *rollout.Config, v *rollout.Version) {
	if r, err := a.get(ctx, rollout.KindConfig); err == nil {
		c, _ = r.(*rollout.Config)
	}
	if r, err := a.get(ctx, rollout.KindVersion); err == nil {
		v, _ = r.(*rollout.Version)
	}
	return c, v
}

// estimatesOf are those of a change, which may be a dry run.
func (a *adminClient) estimatesOf(ctx context.Context, result adminapi.Result) map[string]time.Time {
	c, v := a.wanted(ctx)
	for _, one := range result.Resources {
		list, err := rollout.Parse(one.Resource)
		if err != nil || len(list) != 1 {
			return nil
		}
		switch r := list[0].(type) {
		case *rollout.Config:
			c = r
		case *rollout.Version:
			v = r
		}
	}
	if v == nil || rollout.EffectiveMode(c, v) != rollout.Enabled {
		return nil
	}
	var now adminapi.Overview
	if err := a.ask(ctx, http.MethodGet, "/v1/overview", nil, &now); err != nil {
		return nil
	}
	reports := make(map[string]rollout.GroupOverview)
	for _, g := range now.Groups {
		reports[g.Name] = g
	}
	var o rollout.Overview
	for _, g := range result.Groups {
		one, known := reports[g.Group]
		if !known {
			// No rollout counts the hosts of the group yet.
			var found adminapi.Hosts
			query := url.Values{"group": {g.Group}, "limit": {"1"}}
			if a.ask(ctx, http.MethodGet, "/v1/hosts?"+query.Encode(), nil, &found) == nil {
				one.Present = found.Total
			}
		}
		o.Groups = append(o.Groups, rollout.GroupOverview{Name: g.Group, State: g.State, Since: one.Since, Present: one.Present,
			Versions: one.Versions})
	}
	return estimates(ctx, c, v, o, now.Server.LastTick)
}

// probably says when a group is expected to start, if that is later than the earliest
// time; empty else.
func probably(earliest, expected time.Time) string {
	if earliest.IsZero() || expected.Sub(earliest) < worthSaying {
		return ""
	}
	return ", probably " + rollout.Clock(expected)
}
