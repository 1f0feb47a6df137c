package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"teleport-update/find/rollout"
)

// AdminOrder is what a person wants of the rollout.
type AdminOrder struct {
	Verb   rollout.Verb `json:"verb" yaml:"verb"`
	Groups []string     `json:"groups,omitempty" yaml:"groups,omitempty"`
	Force  bool         `json:"force,omitempty" yaml:"force,omitempty"`
	Reason string       `json:"reason,omitempty" yaml:"reason,omitempty"` // kept in the history
}

// AdminOrderResult is what an order did, or in a dry run would do.
type AdminOrderResult struct {
	Steps []AdminStep `json:"steps"`
	// Overview is how the rollout is after the order.
	Overview rollout.Overview `json:"overview"`
}

// AdminStep is one change of one group, or of the whole rollout where Group is empty.
type AdminStep struct {
	Group   string         `json:"group,omitempty"`
	From    rollout.State  `json:"from,omitempty"`
	To      rollout.State  `json:"to"`
	Halted  bool           `json:"halted,omitempty"`
	Reason  rollout.Reason `json:"reason"`
	Message string         `json:"message,omitempty"`
}

func (a *api) order(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	var o AdminOrder
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxResource))
	if err == nil {
		err = rollout.DecodeJSON(body, &o)
	}
	if err != nil {
		reply(w, http.StatusBadRequest, AdminError{fmt.Sprintf("the order could not be read: %v", err)})
		return
	}
	result, err := a.Engine.Order(r.Context(), rollout.Order{Verb: o.Verb, Groups: o.Groups, Force: o.Force, Who: peer(r.Context()), Why: o.Reason}, dryRun(r))
	if err != nil {
		fail(w, "", err)
		return
	}
	answer := AdminOrderResult{Steps: []AdminStep{}}
	for _, s := range result.Steps {
		answer.Steps = append(answer.Steps, AdminStep{s.Group, s.From, s.To, s.Halted, s.Reason, s.Message})
	}
	scene, err := a.Engine.Scene(r.Context())
	if err != nil {
		fail(w, "", err)
		return
	}
	scene.Rollout = result.Rollout
	answer.Overview = rollout.Survey(scene)
	reply(w, http.StatusOK, answer)
}

// AdminOverview is how the rollout and the server do.
type AdminOverview struct {
	rollout.Overview
	Server AdminStatus `json:"server"`
}

func (a *api) overview(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	scene, err := a.Engine.Scene(r.Context())
	if err != nil {
		fail(w, "", err)
		return
	}
	reply(w, http.StatusOK, AdminOverview{rollout.Survey(scene), a.serverStatus()})
}

// AdminWhy is what a host is told, and why.
type AdminWhy struct {
	AdminAnswer
	JitterSeconds int `json:"jitter_seconds"`
	rollout.Explanation
}

func (a *api) why(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	query := r.URL.Query()
	reply(w, http.StatusOK, a.Stored.Why(rollout.Query{Group: query.Get("group"), Host: query.Get("host"), UpdaterID: query.Get("update_id")}))
}

// Why says why a host is told what it is told.
func (s *Stored) Why(q rollout.Query) AdminWhy {
	n, now := s.current.Load(), s.opts.Clock()
	a := n.answer(q, now, s.opts.Base.AutoUpdate)
	why := AdminWhy{AdminAnswer: adminAnswer(a), JitterSeconds: int(a.Jitter / time.Second)}
	if n.find == nil {
		why.Reasons = []string{"No version is set: hosts are told the newest release that there was when the server started, if there was one."}
		if mode := rollout.EffectiveMode(n.Config, nil); mode != rollout.Enabled {
			why.Reasons = append(why.Reasons, fmt.Sprintf("Updates are %s.", mode))
		}
		return why
	}
	why.Explanation = n.find.Explain(q, now)
	if !s.opts.Base.AutoUpdate {
		why.Reasons = append(why.Reasons, "The server was started with --autoupdate=false: no host is told to update.")
	}
	return why
}

func (a *api) channels(w http.ResponseWriter, r *http.Request) {
	answer := AdminChannels{Channels: []AdminChannel{}}
	if a.Channels != nil {
		answer.Channels = a.Channels.List(r.Context())
	}
	reply(w, http.StatusOK, answer)
}

// all answers with every resource that there is.
func (a *api) all(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	list, err := a.Stored.All(r.Context())
	if err != nil {
		fail(w, "", err)
		return
	}
	answer := AdminResources{Resources: []json.RawMessage{}}
	for _, one := range list {
		data, err := rollout.JSON(one)
		if err != nil {
			fail(w, one.GetKind(), err)
			return
		}
		answer.Resources = append(answer.Resources, data)
	}
	reply(w, http.StatusOK, answer)
}

// AdminResources are all resources, those that people write first.
type AdminResources struct {
	Resources []json.RawMessage `json:"resources"`
}

func (a *api) forget(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	query := r.URL.Query()
	options := ApplyOptions{DryRun: dryRun(r), Who: peer(r.Context()), Why: query.Get("reason")}
	applied, err := a.Stored.ForgetVersion(r.Context(), options)
	if err != nil {
		fail(w, rollout.KindVersion, err)
		return
	}
	reply(w, http.StatusOK, AdminResult{
		Resources: []AdminResource{{Kind: rollout.KindVersion, Change: applied.Resources[0].Change}},
		Answer:    adminAnswer(applied.Answer), Notes: applied.Notes, Warnings: applied.Warnings,
	})
}

// steered reports whether the answers come from the store, and says so where not.
func (a *api) steered(w http.ResponseWriter) bool {
	switch {
	case a.Frozen != "":
		reply(w, http.StatusConflict, AdminError{a.Frozen})
	case a.Engine == nil:
		reply(w, http.StatusServiceUnavailable, AdminError{"this server runs no engine"})
	default:
		return true
	}
	return false
}
