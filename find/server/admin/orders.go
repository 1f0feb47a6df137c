package admin

import (
	"fmt"
	"io"
	"net/http"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

func (a *api) order(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	var o adminapi.Order
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxResource))
	if err == nil {
		err = rollout.DecodeJSON(body, &o)
	}
	if err != nil {
		parts.Reply(w, http.StatusBadRequest, adminapi.Error{Error: fmt.Sprintf("the order could not be read: %v", err)})
		return
	}
	result, err := a.Engine.Order(r.Context(), rollout.Order{Verb: o.Verb, Groups: o.Groups, Force: o.Force, To: o.To, Who: peer(r.Context()),
		Why: o.Reason}, dryRun(r))
	if err != nil {
		a.fail(w, "", err)
		return
	}
	answer := adminapi.OrderResult{Steps: []adminapi.Step{}}
	for _, s := range result.Steps {
		answer.Steps = append(answer.Steps, adminapi.Step{Group: s.Group, From: s.From, To: s.To, Halted: s.Halted, Reason: s.Reason,
			Message: s.Message})
	}
	if !dryRun(r) {
		// The outlook includes the order's first effects, such as the start of the next group. If the tick
		// fails, the next one comes within seconds, and status says why.
		if _, err := a.Engine.Tick(r.Context()); err != nil {
			a.Log.Debug("no tick after an order", "error", err)
		}
	}
	scene, err := a.Engine.Scene(r.Context())
	if err != nil {
		a.fail(w, "", err)
		return
	}
	if dryRun(r) {
		scene.Rollout = result.Rollout
	}
	answer.Overview = rollout.Survey(scene)
	parts.Reply(w, http.StatusOK, answer)
}
