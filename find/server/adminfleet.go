package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

const (
	defaultPage = 100
	maxPage     = 10_000
)

// fleetRoutes are the parts of the admin API that are about hosts.
func (a *api) fleetRoutes(mux *http.ServeMux) {
	for pattern, do := range map[string]http.HandlerFunc{
		"GET /v1/counts": a.counts, "GET /v1/hosts": a.hosts, "GET /v1/hosts/{id}": a.host, "DELETE /v1/hosts/{id}": a.revokeHost,
		"GET /v1/tokens": a.tokens, "POST /v1/tokens": a.addToken, "DELETE /v1/tokens/{name}": a.revokeToken,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case a.Frozen != "":
				reply(w, http.StatusConflict, AdminError{a.Frozen})
			case a.Fleet == nil:
				reply(w, http.StatusConflict, AdminError{"this server takes no reports of hosts"})
			default:
				do(w, r)
			}
		})
	}
	mux.HandleFunc("GET /v1/history", a.history)
	mux.HandleFunc("GET /v1/asked", a.asked)
}

func (a *api) asked(w http.ResponseWriter, _ *http.Request) {
	if a.AdminOptions.Asked == nil {
		reply(w, http.StatusConflict, AdminError{"this server does not count who asks"})
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
	reply(w, http.StatusOK, a.AdminOptions.Asked.Summary(func(group string) bool { return groups[group] }))
}

// audit says who makes a request, and why.
func (a *api) audit(r *http.Request) store.Audit {
	return store.Audit{Time: a.Stored.Now(), Who: peer(r.Context()), Why: r.URL.Query().Get("reason")}
}

func (a *api) history(w http.ResponseWriter, r *http.Request) {
	if a.Frozen != "" {
		reply(w, http.StatusConflict, AdminError{a.Frozen})
		return
	}
	limit, ok := number(w, r, "limit", defaultPage, maxPage)
	if !ok {
		return
	}
	records, err := a.Store.History(r.Context(), limit)
	if err != nil {
		fail(w, "history", err)
		return
	}
	list := AdminHistory{Records: make([]AdminRecord, 0, len(records))}
	for _, one := range records {
		list.Records = append(list.Records, AdminRecord{
			Time: one.Time, Who: one.Who, What: one.What, Why: one.Why, Key: one.Key, From: int64(one.From), To: int64(one.To),
		})
	}
	reply(w, http.StatusOK, list)
}

// number reads a parameter; what is above a limit is the limit.
func number(w http.ResponseWriter, r *http.Request, name string, usual, limit int) (int, bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return usual, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		reply(w, http.StatusBadRequest, AdminError{fmt.Sprintf("%s=%.40q is not a number from 1 on", name, text)})
		return 0, false
	}
	return min(n, limit), true
}

func (a *api) counts(w http.ResponseWriter, r *http.Request) {
	now := a.Stored.Now()
	answer := AdminCounts{Hosts: a.Fleet.Len(), Groups: []AdminGroupCount{}}
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
	for i, g := range n.Groups {
		one := AdminGroupCount{
			Group: current.Status.Groups[i].Name, Present: g.Present, UpToDate: g.UpToDate, Failed: g.Failed, TimedOut: g.TimedOut,
			Unhealthy: g.Unhealthy, Missing: g.Missing, Versions: make(map[string]int),
		}
		if g.Flight != nil {
			one.InFlight = g.Flight.InFlight
		}
		for v, count := range g.Versions {
			one.Versions[string(v)] = count
		}
		for _, p := range g.Problems {
			one.Problems = append(one.Problems, AdminProblem(p))
		}
		answer.Groups = append(answer.Groups, one)
	}
	reply(w, http.StatusOK, answer)
}

func (a *api) hosts(w http.ResponseWriter, r *http.Request) {
	limit, ok := number(w, r, "limit", defaultPage, maxPage)
	if !ok {
		return
	}
	query := r.URL.Query()
	if state := query.Get("state"); query.Has("state") && !slices.Contains(hostStates, HostState(state)) {
		reply(w, http.StatusBadRequest, AdminError{fmt.Sprintf("state=%.40q is not one of %v", state, hostStates)})
		return
	}
	after, _ := rollout.ParseUUID(query.Get("after"))
	now, target := a.Stored.Now(), a.target()
	answer := AdminHosts{Hosts: []AdminHost{}}
	var found []rollout.HostID
	a.Fleet.Each(func(e *fleet.Entry) {
		if query.Has("group") && e.Group != query.Get("group") || query.Has("version") && string(e.Version) != query.Get("version") ||
			query.Has("state") && string(stateOf(e, target, now)) != query.Get("state") {
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
			answer.Hosts = append(answer.Hosts, adminHost(&e, target, now))
		}
	}
	if len(found) > limit {
		answer.Next = found[limit-1].String()
	}
	reply(w, http.StatusOK, answer)
}

// target is the version that hosts are being brought to.
func (a *api) target() rollout.Semver {
	if version := a.Stored.Resources().Version; version != nil {
		return version.Spec.Agents.TargetVersion
	}
	return ""
}

func (a *api) host(w http.ResponseWriter, r *http.Request) {
	id, _ := rollout.ParseUUID(r.PathValue("id"))
	e, ok := a.Fleet.Entry(id)
	if !ok {
		reply(w, http.StatusNotFound, AdminError{fmt.Sprintf("no host %.60q has joined", r.PathValue("id"))})
		return
	}
	reply(w, http.StatusOK, adminHost(&e, a.target(), a.Stored.Now()))
}

func adminHost(e *fleet.Entry, target rollout.Semver, now time.Time) AdminHost {
	event := func(v rollout.Event) *AdminEvent {
		if v.Target == "" {
			return nil
		}
		return &AdminEvent{string(v.Target), v.At}
	}
	h := AdminHost{
		ID: e.ID.String(), Hostname: e.Hostname, Group: e.Group, Version: string(e.Version), Edition: e.Edition, Arch: e.Arch,
		State: stateOf(e, target, now), Omitted: e.Omitted(now), Pinned: e.Pinned, Disabled: e.Disabled, Unhealthy: e.Unhealthy, Cloned: e.Cloned,
		FirstSeen: e.FirstSeen, LastSeen: e.LastSeen, Told: event(e.Told), Begun: event(e.Begun), Token: e.Token, Revoked: e.Secret == [16]byte{},
	}
	if e.UpdaterID != (rollout.HostID{}) {
		h.UpdaterID = e.UpdaterID.String()
	}
	if e.Failed.Target != "" {
		h.Failed = &AdminFailure{*event(e.Failed.Event), e.Failed.Error}
	}
	return h
}

// stateOf says in a word how a host does.
func stateOf(e *fleet.Entry, target rollout.Semver, now time.Time) HostState {
	switch {
	case e.Secret == [16]byte{}:
		return HostRevoked
	case e.Cloned:
		return HostCloned
	case now.Sub(e.LastSeen) > rollout.PresentFor:
		return HostAbsent
	case target == "":
		return HostWaiting
	case e.Version == target:
		return HostOnTarget
	case e.Failed.Target == target:
		return HostFailed
	case e.Pinned:
		return HostPinned
	case e.Disabled:
		return HostDisabled
	case e.Begun.Target == target:
		return HostUpdating
	case e.Told.Target == target:
		return HostTold
	}
	return HostWaiting
}

func (a *api) revokeHost(w http.ResponseWriter, r *http.Request) {
	id, ok := rollout.ParseUUID(r.PathValue("id"))
	err := error(store.ErrNotFound)
	var removed fleet.Entry
	if ok {
		removed, err = a.Fleet.RevokeHost(r.Context(), id, a.audit(r), dryRun(r))
	}
	if errors.Is(err, store.ErrNotFound) {
		reply(w, http.StatusNotFound, AdminError{fmt.Sprintf("no host %.60q has joined, or it was revoked before", r.PathValue("id"))})
		return
	}
	if err != nil {
		fail(w, "host", err)
		return
	}
	if !dryRun(r) {
		a.Log.Info("a host was revoked", "host", id.String(), "by", peer(r.Context()))
		removed.Secret = [16]byte{}
	}
	reply(w, http.StatusOK, adminHost(&removed, a.target(), a.Stored.Now()))
}

func (a *api) tokens(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, AdminTokens{a.Fleet.Tokens()})
}

func (a *api) addToken(w http.ResponseWriter, r *http.Request) {
	var request AdminTokenRequest
	if !decode(w, r, &request) {
		return
	}
	made, err := a.Fleet.AddToken(r.Context(), request, a.audit(r), dryRun(r))
	if err != nil {
		fail(w, "token", err)
		return
	}
	if made.Token == "" {
		reply(w, http.StatusOK, made)
		return
	}
	a.Log.Info("a join token was made", "token", made.Name, "groups", made.Groups, "expires", made.Expires, "by", made.By)
	reply(w, http.StatusOK, made)
}

func (a *api) revokeToken(w http.ResponseWriter, r *http.Request) {
	revoke := func(ctx context.Context, name string, audit store.Audit, dryRun bool) error {
		_, err := a.Fleet.RevokeToken(ctx, name, r.URL.Query().Get("hosts") == "true", audit, dryRun)
		return err
	}
	if a.revoke(w, r, "join token", revoke) {
		a.tokens(w, r)
	}
}
