package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// maxResource is room for thousands of groups.
const maxResource = 1 << 20

// AdminOptions are the parts of the admin API.
type AdminOptions struct {
	// Stored is what can be read and changed.
	Stored *Stored
	// Frozen, when not empty, is why nothing can be: the answers come from
	// somewhere else. Stored is not looked at then.
	Frozen string
	Log    *slog.Logger
}

// AdminResult is the answer to a change. Answers that are errors hold an
// AdminError.
type AdminResult struct {
	Resources []AdminResource `json:"resources"`
	Answer    AdminAnswer     `json:"answer"`
	Notes     []string        `json:"notes,omitempty"`
	Warnings  []string        `json:"warnings,omitempty"`
}

// AdminResource is what became of one resource.
type AdminResource struct {
	Kind     string          `json:"kind"`
	Change   Change          `json:"change"`
	Resource json.RawMessage `json:"resource"`
}

// AdminAnswer is what hosts are told.
type AdminAnswer struct {
	AgentVersion string `json:"agent_version"`
	Edition      string `json:"edition"`
	AutoUpdate   bool   `json:"agent_autoupdate"`
}

// AdminError says why something was not done.
type AdminError struct {
	Error string `json:"error"`
}

// NewAdmin returns the handler of the admin API. Whoever reaches it may do
// everything: it belongs behind a socket that only the right people can open.
//
//	GET /v1/resources/KIND  the resource in JSON, with its revision
//	PUT /v1/resources       resources in YAML or JSON, all of which are written or
//	                        none; an AdminResult comes back
//
// Parameters of PUT are dry_run=true, and new=true for resources that must not be
// there yet. Errors are 400 for what is not well formed, 404 for what is not there,
// 409 where the answers come from somewhere else, 412 for another revision than
// the resource names, 422 for what this server cannot do, and 503 when the store
// cannot be used.
func NewAdmin(opts AdminOptions) http.Handler {
	a := &admin{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/resources/{kind}", a.get)
	mux.HandleFunc("PUT /v1/resources", a.put)
	return mux
}

type admin struct{ AdminOptions }

func (a *admin) get(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if !a.known(w, kind) {
		return
	}
	resource, err := a.Stored.Get(r.Context(), kind)
	if err != nil {
		fail(w, kind, err)
		return
	}
	body, err := rollout.JSON(resource)
	if err != nil {
		fail(w, kind, err)
		return
	}
	reply(w, http.StatusOK, json.RawMessage(body))
}

func (a *admin) put(w http.ResponseWriter, r *http.Request) {
	if a.Frozen != "" {
		reply(w, http.StatusConflict, AdminError{a.Frozen})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxResource))
	if err != nil {
		reply(w, http.StatusBadRequest, AdminError{fmt.Sprintf("the resources could not be read, or are larger than %d bytes", maxResource)})
		return
	}
	list, err := rollout.Parse(body)
	if err != nil {
		reply(w, http.StatusBadRequest, AdminError{err.Error()})
		return
	}
	query := r.URL.Query()
	options := ApplyOptions{DryRun: query.Get("dry_run") == "true", New: query.Get("new") == "true"}
	applied, err := a.Stored.Apply(r.Context(), list, options)
	if err != nil {
		fail(w, "", err)
		return
	}
	result := AdminResult{
		Notes: applied.Notes, Warnings: applied.Warnings,
		Answer: AdminAnswer{applied.Answer.Version, string(applied.Answer.Edition), applied.Answer.AutoUpdate},
	}
	for _, one := range applied.Resources {
		kind := one.Resource.GetKind()
		if !options.DryRun && one.Change != Unchanged {
			a.Log.Info("a resource was written", "kind", kind, "change", one.Change,
				"revision", one.Resource.GetMetadata().Revision, "by", peer(r.Context()))
		}
		data, err := rollout.JSON(one.Resource)
		if err != nil {
			fail(w, kind, err)
			return
		}
		result.Resources = append(result.Resources, AdminResource{kind, one.Change, data})
	}
	reply(w, http.StatusOK, result)
}

func (a *admin) known(w http.ResponseWriter, kind string) bool {
	switch {
	case a.Frozen != "":
		reply(w, http.StatusConflict, AdminError{a.Frozen})
	case !slices.Contains(rollout.Kinds, kind):
		reply(w, http.StatusNotFound, AdminError{fmt.Sprintf("there are no resources of the kind %.60q", kind)})
	default:
		return true
	}
	return false
}

func fail(w http.ResponseWriter, kind string, err error) {
	status := http.StatusServiceUnavailable
	text := err.Error()
	if errors.Is(err, store.ErrNotFound) {
		status, text = http.StatusNotFound, "there is no "+kind+" in the store"
	} else if _, ok := errors.AsType[*store.ConflictError](err); ok {
		status = http.StatusPreconditionFailed
	} else if _, ok := errors.AsType[*RefusedError](err); ok {
		status = http.StatusUnprocessableEntity
	}
	if status == http.StatusServiceUnavailable {
		text += "; hosts are told what they were told before"
	}
	reply(w, status, AdminError{text})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}
