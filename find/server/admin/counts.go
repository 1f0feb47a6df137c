package admin

import (
	"net/http"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

func (a *api) asked(w http.ResponseWriter, _ *http.Request) {
	if a.Options.Asked == nil {
		parts.Reply(w, http.StatusConflict, adminapi.Error{Error: "this server does not count who asks"})
		return
	}
	groups := make(map[string]bool)
	if a.Frozen == "" {
		if current := a.Stored.Resources().Rollout; current != nil {
			for i := range current.Status.Groups {
				groups[current.Status.Groups[i].Name] = true
			}
		}
	}
	parts.Reply(w, http.StatusOK, a.Options.Asked.Summary(func(group string) bool { return groups[group] }))
}

func (a *api) counts(w http.ResponseWriter, r *http.Request) {
	now := a.Stored.Now()
	answer := adminapi.Counts{Hosts: a.Fleet.Len(), Groups: []adminapi.GroupCount{}}
	current := a.Stored.Resources().Rollout
	if current == nil {
		current = new(rollout.Rollout)
	}
	plans, _, err := a.Stored.Plans().Load(r.Context(), current)
	if err != nil {
		fail(w, "plan", err)
		return
	}
	n := a.Fleet.Counts(current, plans, now)
	answer.Complete, answer.Omitted, answer.Unmatched = n.Complete, n.Omitted, n.Unmatched
	if !n.Complete {
		answer.CompleteAt = a.Fleet.CompleteAt()
	}
	answer.Versions = make(map[string]int)
	a.Fleet.Each(func(e *fleet.Entry) {
		if e.Omitted(now) == "" {
			answer.Versions[string(e.Version)]++
		}
	})
	for i, g := range n.Groups {
		if status := &current.Status.Groups[i]; status.State != rollout.Canarying && status.State != rollout.Active {
			g.Failed, g.TimedOut = status.FailedCount, status.TimedOutCount // of its last trial, as in the rollout
		}
		one := adminapi.GroupCount{
			Group: current.Status.Groups[i].Name, Present: g.Present, UpToDate: g.UpToDate, Failed: g.Failed, TimedOut: g.TimedOut,
			Unhealthy: g.Unhealthy, Missing: g.Missing, Versions: make(map[string]int), Updating: g.Tally.With(rollout.HostUpdating),
		}
		if g.Flight != nil {
			one.InFlight = g.Flight.InFlight
		}
		for v, count := range g.Versions {
			one.Versions[string(v)] = count
		}
		for _, p := range g.Problems {
			one.Problems = append(one.Problems, adminapi.Problem(p))
		}
		answer.Groups = append(answer.Groups, one)
	}
	parts.Reply(w, http.StatusOK, answer)
}
