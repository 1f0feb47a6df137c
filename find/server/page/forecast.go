package page

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/simulate"
)

const (
	// forecastLimit bounds the time of a simulation: somebody waits for it.
	forecastLimit = 2 * time.Second
	// forecastAge is for how long its result is shown again: two weeks ahead, seconds make no difference.
	forecastAge = 30 * time.Second
)

// forecastView is what would happen next if all hosts updated as usual.
type forecastView struct {
	rollout.Outlook
	Mode   rollout.Mode
	Target rollout.Semver
	Rows   []forecastRow
	// Problem is why there is no estimate; empty if there is one.
	Problem string
}

type forecastRow struct {
	Group       string
	State       string
	Hosts, Left int
	Earliest    time.Time
	Waits       string
	Start, Done time.Time
}

func (p *page) forecastView(w http.ResponseWriter, v *visit) {
	var now adminapi.Overview
	if err := p.api.ask(v, http.MethodGet, "/v1/overview?counts=last", nil, &now); err != nil {
		p.fail(w, v, err)
		return
	}
	view := forecastView{Outlook: now.Outlook, Mode: now.Mode, Target: now.Target}
	estimates, problem := p.estimates(v, now)
	view.Problem = problem
	for _, g := range now.Groups {
		e := estimates[g.Name]
		view.Rows = append(view.Rows, forecastRow{
			Group: g.Name, State: shownState(g), Hosts: g.Present, Left: max(0, g.Present-g.UpToDate), Earliest: g.Starts, Waits: g.Waits,
			Start: e.Start, Done: e.Done,
		})
	}
	p.show(w, v, http.StatusOK, "forecast", frame{Title: "What would happen next", Here: "forecast", View: view})
}

// estimates are those of the simulator, or why there are none.
func (p *page) estimates(v *visit, now adminapi.Overview) (estimates map[string]simulate.Estimate, problem string) {
	switch {
	case now.Target == "":
		return nil, "No version is set, so nothing would happen."
	case now.Mode != rollout.Enabled:
		return nil, fmt.Sprintf("Updates are %s, so no group would go on.", now.Mode)
	case len(now.Groups) == 0:
		return nil, "The rollout has no groups."
	case now.Server.LastTick.IsZero():
		return nil, "The server has just started and has not looked at the rollout yet."
	}
	f := &p.forecast
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && f.target == now.Target && f.clock().Sub(f.made) < forecastAge {
		return f.last, ""
	}
	version, is := p.resource(v, rollout.KindVersion).(*rollout.Version)
	if !is {
		return nil, "The version cannot be read, so nothing can be tried."
	}
	config, _ := p.resource(v, rollout.KindConfig).(*rollout.Config)
	ctx, cancel := context.WithTimeout(v.Context(), forecastLimit)
	defer cancel()
	made, err := simulate.EstimateGroups(ctx, config, version, now.Overview, now.Server.LastTick)
	if err != nil {
		return nil, "The simulation did not come to an end in time, so there is no estimate."
	}
	f.made, f.target, f.last = f.clock(), now.Target, made
	return made, ""
}

// resource is one of the store; nil if there is none that can be read.
func (p *page) resource(v *visit, kind string) rollout.Resource {
	data, err := p.api.raw(v, http.MethodGet, "/v1/resources/"+kind, nil)
	if err != nil {
		return nil
	}
	list, err := rollout.Parse(data)
	if err != nil || len(list) != 1 {
		return nil
	}
	return list[0]
}
