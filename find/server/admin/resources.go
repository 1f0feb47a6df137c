package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/parts"
)

// MaxResource is room for thousands of groups.
const MaxResource = 1 << 20

func (a *api) get(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if !a.known(w, kind) {
		return
	}
	resource, err := a.Stored.Get(r.Context(), kind, r.PathValue("name"))
	if err != nil {
		a.fail(w, strings.TrimSuffix(kind+" "+r.PathValue("name"), " "), err)
		return
	}
	body, err := rollout.JSON(resource)
	if err != nil {
		a.fail(w, kind, err)
		return
	}
	parts.Reply(w, http.StatusOK, json.RawMessage(body))
}

func (a *api) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxResource))
	if err != nil {
		parts.Reply(w, http.StatusBadRequest, adminapi.Error{Error: fmt.Sprintf("the resources could not be read, or are larger than %d bytes",
			MaxResource)})
		return
	}
	list, err := rollout.ParseWritten(body)
	if err != nil {
		parts.Reply(w, http.StatusBadRequest, adminapi.Error{Error: err.Error()})
		return
	}
	for _, right := range a.resourceRights(r.Context(), list) {
		if !needs(w, r, right) {
			return
		}
	}
	query := r.URL.Query()
	options := answers.ApplyOptions{DryRun: dryRun(r), New: query.Get("new") == "true", Who: peer(r.Context()), Why: query.Get("reason")}
	applied, err := a.Stored.Apply(r.Context(), list, options)
	if err != nil {
		a.fail(w, "", err)
		return
	}
	result := adminapi.Result{
		Notes: applied.Notes, Warnings: applied.Warnings, Answer: answers.ForAdmin(applied.Answer),
	}
	if a.Engine != nil {
		result.Warnings = append(result.Warnings, a.Engine.Foresee(applied.Scene)...)
	}
	for _, g := range applied.Groups {
		result.Groups = append(result.Groups, adminapi.Group{Group: g.Group, State: g.State, Answer: answers.ForAdmin(g.Answer), Starts: g.At,
			Waits: g.Waits})
	}
	if a.Engine != nil && !options.DryRun {
		// The next look shows the rollout that this begins. If the tick fails, Run logs
		// that and tries again.
		a.Engine.Tick(r.Context())
	}
	for _, one := range applied.Resources {
		kind := rollout.Key(one.Resource)
		if !options.DryRun && one.Change != adminapi.Unchanged {
			a.Log.Info("a resource was written", "kind", kind, "change", one.Change,
				"revision", one.Resource.GetMetadata().Revision, "by", peer(r.Context()))
		}
		data, err := rollout.JSON(one.Resource)
		if err != nil {
			a.fail(w, kind, err)
			return
		}
		result.Resources = append(result.Resources, adminapi.Resource{Kind: kind, Change: one.Change, Resource: data})
	}
	parts.Reply(w, http.StatusOK, result)
}

// all answers with all resources.
func (a *api) all(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	list, err := a.Stored.All(r.Context())
	if err != nil {
		a.fail(w, "", err)
		return
	}
	answer := adminapi.Resources{Resources: []json.RawMessage{}}
	for _, one := range list {
		data, err := rollout.JSON(one)
		if err != nil {
			a.fail(w, one.GetKind(), err)
			return
		}
		answer.Resources = append(answer.Resources, data)
	}
	parts.Reply(w, http.StatusOK, answer)
}

func (a *api) forget(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	query := r.URL.Query()
	options := answers.ApplyOptions{DryRun: dryRun(r), Who: peer(r.Context()), Why: query.Get("reason")}
	applied, err := a.Stored.ForgetVersion(r.Context(), options)
	if err != nil {
		a.fail(w, rollout.KindVersion, err)
		return
	}
	parts.Reply(w, http.StatusOK, adminapi.Result{
		Resources: []adminapi.Resource{{Kind: rollout.KindVersion, Change: applied.Resources[0].Change}},
		Answer:    answers.ForAdmin(applied.Answer), Notes: applied.Notes, Warnings: applied.Warnings,
	})
}
