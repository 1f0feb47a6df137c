package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/inventory"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

const (
	defaultPage = 100
	maxPage     = 10_000
)

func (a *api) hosts(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", defaultPage, maxPage)
	if !ok {
		return
	}
	query := r.URL.Query()
	if state := query.Get("state"); query.Has("state") && !slices.Contains(adminapi.HostStates, adminapi.HostState(state)) {
		parts.Reply(w, http.StatusBadRequest, adminapi.Error{Error: fmt.Sprintf("state=%.40q is not one of %v", state, adminapi.HostStates)})
		return
	}
	after, _ := rollout.ParseUUID(query.Get("after"))
	if query.Get("total") == "false" {
		a.pageOfHosts(w, query, after, limit)
		return
	}
	now, goal := a.Stored.Now(), a.goals()
	answer := adminapi.Hosts{Hosts: []adminapi.Host{}}
	var found []rollout.HostID
	wanted := make(map[string]string)
	for name := range filters {
		if query.Has(name) {
			wanted[name] = query.Get(name)
		}
	}
	a.Fleet.Each(func(e *fleet.Entry) {
		if !matches(wanted, e) || query.Has("state") && string(stateOf(e, goal(e.Group), now)) != query.Get("state") {
			return
		}
		answer.Total++
		if bytes.Compare(e.ID[:], after[:]) > 0 {
			found = append(found, e.ID)
		}
	})
	slices.SortFunc(found, func(x, y rollout.HostID) int { return bytes.Compare(x[:], y[:]) })
	for _, id := range found[:min(limit, len(found))] {
		if e, ok := a.Fleet.Entry(id); ok {
			answer.Hosts = append(answer.Hosts, a.adminHost(&e, goal(e.Group), now))
		}
	}
	if len(found) > limit {
		answer.Next = found[limit-1].String()
	}
	parts.Reply(w, http.StatusOK, answer)
}

// pageOfHosts answers without a total, which would take a look at every host.
func (a *api) pageOfHosts(w http.ResponseWriter, query url.Values, after rollout.HostID, limit int) {
	now, goal := a.Stored.Now(), a.goals()
	state := adminapi.HostState(query.Get("state"))
	walk := fleet.Walk{After: after, Limit: limit, Failed: state == adminapi.HostFailed}
	for name, into := range map[string]**string{"group": &walk.Group, "version": &walk.Version} {
		if query.Has(name) {
			value := query.Get(name)
			*into = &value
		}
	}
	if query.Has("hostname") || state != "" {
		walk.Match = func(e *fleet.Entry) bool {
			return (!query.Has("hostname") || e.Hostname == query.Get("hostname")) && (state == "" || stateOf(e, goal(e.Group), now) == state)
		}
	}
	found, more := a.Fleet.Walk(walk)
	answer := adminapi.Hosts{Hosts: []adminapi.Host{}}
	for i := range found {
		answer.Hosts = append(answer.Hosts, a.adminHost(&found[i], goal(found[i].Group), now))
	}
	if more {
		answer.Next = found[limit-1].ID.String()
	}
	parts.Reply(w, http.StatusOK, answer)
}

// filters are the parameters that select hosts by their own reports.
var filters = map[string]func(*fleet.Entry) string{
	"group":    func(e *fleet.Entry) string { return e.Group },
	"version":  func(e *fleet.Entry) string { return string(e.Version) },
	"hostname": func(e *fleet.Entry) string { return e.Hostname },
}

// matches reports whether a host matches all parameters.
func matches(wanted map[string]string, e *fleet.Entry) bool {
	for name, value := range wanted {
		if filters[name](e) != value {
			return false
		}
	}
	return true
}

// goals returns a function for the version that the hosts of a group shall reach.
func (a *api) goals() func(group string) rollout.Semver {
	r := a.Stored.Resources()
	return rollout.Goals(r.Version, r.Rollout)
}

func (a *api) host(w http.ResponseWriter, r *http.Request) {
	id, _ := rollout.ParseUUID(r.PathValue("id"))
	e, ok := a.Fleet.Entry(id)
	if !ok {
		parts.Reply(w, http.StatusNotFound, adminapi.Error{Error: fmt.Sprintf("no host %.60q has joined", r.PathValue("id"))})
		return
	}
	n, now := a.Stored.Resources(), a.Stored.Now()
	known := a.adminHost(&e, a.goals()(e.Group), now)
	known.Choices = rollout.HostChoices(&e.Host, n.Config, n.Version, n.Rollout, n.Overrides, now)
	parts.Reply(w, http.StatusOK, known)
}

// orderHost gives a host an order of its own.
func (a *api) orderHost(w http.ResponseWriter, r *http.Request) {
	var o adminapi.HostOrder
	if !decode(w, r, &o) {
		return
	}
	id, _ := rollout.ParseUUID(r.PathValue("id"))
	e, ok := a.Fleet.Entry(id)
	if o.Action == rollout.ReleaseHost {
		e.ID = id // also of a host that was revoked or forgotten
	} else if !ok {
		parts.Reply(w, http.StatusNotFound, adminapi.Error{Error: fmt.Sprintf("no host %.60q has joined", r.PathValue("id"))})
		return
	}
	_, err := a.Stored.OrderHost(r.Context(), rollout.HostOrder{Host: &e.Host, Action: o.Action, To: o.To, Until: o.Until,
		Who: peer(r.Context()), Why: o.Reason, Known: a.knownHosts(r.Context())}, dryRun(r))
	if err != nil {
		a.fail(w, "", err)
		return
	}
	parts.Reply(w, http.StatusOK, a.adminHost(&e, a.goals()(e.Group), a.Stored.Now()))
}

// knownHosts returns a function for the hosts that the fleet knows, or nil if it may lack hosts.
func (a *api) knownHosts(ctx context.Context) func(rollout.HostID) *rollout.Host {
	if a.Fleet.Loading() || a.Fleet.Sync(ctx) != nil {
		return nil
	}
	return func(id rollout.HostID) *rollout.Host {
		if e, ok := a.Fleet.Entry(id); ok {
			return &e.Host
		}
		return nil
	}
}

// releaseRemoved releases hosts that were just removed: if they join again, they follow their groups.
func (a *api) releaseRemoved(r *http.Request, reason string) {
	known := a.knownHosts(r.Context())
	for id := range a.Stored.Resources().Overrides {
		host := rollout.ParseHostID(id)
		if known == nil || known(host) != nil {
			continue
		}
		// It drops the orders of the other unknown hosts, too.
		_, err := a.Stored.OrderHost(r.Context(), rollout.HostOrder{Host: &rollout.Host{ID: host}, Action: rollout.ReleaseHost,
			Who: peer(r.Context()), Why: reason, Known: known}, false)
		if err != nil {
			a.Log.Warn("the order of a host that was removed stays; hosts ID release ends it", "host", id, "error", err)
		}
		return
	}
}

func (a *api) adminHost(e *fleet.Entry, goal rollout.Semver, now time.Time) adminapi.Host {
	event := func(v rollout.Event) *adminapi.Event {
		if v.Target == "" {
			return nil
		}
		return &adminapi.Event{Target: string(v.Target), Time: v.At}
	}
	h := adminapi.Host{
		ID: e.ID.String(), Hostname: e.Hostname, Group: e.Group, Version: string(e.Version), Edition: e.Edition, Arch: e.Arch,
		State: stateOf(e, goal, now), Omitted: e.Omitted(now), Pinned: e.Pinned, Disabled: e.Disabled, Unhealthy: e.Unhealthy, Cloned: e.Cloned,
		BelowMinimum: e.BelowMinimum, Unsigned: e.Unsigned,
		FirstSeen: e.FirstSeen, LastSeen: e.LastSeen, Told: event(e.Told), Begun: event(e.Begun), Token: inventory.TokenName(e),
		Revoked: e.Secret == [16]byte{},
	}
	n := a.Stored.Resources()
	if order, has := n.OrderOf(&e.Host, now); has {
		h.Order = order.Words()
	}
	if e.UpdaterID != (rollout.HostID{}) {
		h.UpdaterID = e.UpdaterID.String()
	}
	if e.Failed.Target != "" {
		h.Failed = &adminapi.Failure{Event: *event(e.Failed.Event), Error: e.Failed.Error}
	}
	return h
}

// stateOf returns the state of a host on its way to a version.
func stateOf(e *fleet.Entry, goal rollout.Semver, now time.Time) adminapi.HostState {
	switch {
	case e.Secret == [16]byte{}:
		return adminapi.HostRevoked
	case e.Cloned:
		return adminapi.HostCloned
	case now.Sub(e.LastSeen) > rollout.PresentFor:
		return adminapi.HostAbsent
	case goal == "":
		return adminapi.HostWaiting
	case e.Version == goal:
		return adminapi.HostOnTarget
	case e.Failed.Target == goal:
		return adminapi.HostFailed
	case e.Pinned:
		return adminapi.HostPinned
	case e.Disabled:
		return adminapi.HostDisabled
	case e.Begun.Target == goal:
		return adminapi.HostUpdating
	case e.Told.Target == goal:
		return adminapi.HostTold
	}
	return adminapi.HostWaiting
}

func (a *api) revokeHost(w http.ResponseWriter, r *http.Request) {
	id, ok := rollout.ParseUUID(r.PathValue("id"))
	err := error(store.ErrNotFound)
	var removed fleet.Entry
	if ok {
		removed, err = a.Fleet.RevokeHost(r.Context(), id, a.audit(r), dryRun(r))
	}
	if errors.Is(err, store.ErrNotFound) {
		parts.Reply(w, http.StatusNotFound, adminapi.Error{Error: fmt.Sprintf("no host %.60q has joined, or it was revoked before",
			r.PathValue("id"))})
		return
	}
	if err != nil {
		a.fail(w, "host", err)
		return
	}
	if !dryRun(r) {
		a.Log.Info("a host was revoked", "host", id.String(), "by", peer(r.Context()))
		removed.Secret = [16]byte{}
		a.releaseRemoved(r, "the host was revoked")
	}
	parts.Reply(w, http.StatusOK, a.adminHost(&removed, a.goals()(removed.Group), a.Stored.Now()))
}
