package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// maxResource is room for thousands of groups.
const maxResource = 1 << 20

// AdminOptions are the parts of the admin API.
type AdminOptions struct {
	// Stored is what can be read and changed.
	Stored *Stored
	// Store has the history.
	Store store.Store
	// Engine steps the rollout, also right after a change.
	Engine *Engine
	// Fleet is the hosts that report; nil: none do.
	Fleet *Fleet
	// Asked counts who asks; nil: nobody does.
	Asked *Asked
	// Channels is what is listed of them; nil: there are none.
	Channels *Channels
	// Access has the tokens of those who come over TCP; nil: there are none.
	Access *Access
	// Frozen, when not empty, is why nothing can be: the answers come from
	// somewhere else. Stored is not looked at then.
	Frozen string
	Log    *slog.Logger
}

// AdminResult is the answer to a change. Answers that are errors hold an
// AdminError.
type AdminResult struct {
	Resources []AdminResource `json:"resources"`
	// Answer is for hosts of no group, Groups for those of groups.
	Answer   AdminAnswer  `json:"answer"`
	Groups   []AdminGroup `json:"groups,omitempty"`
	Notes    []string     `json:"notes,omitempty"`
	Warnings []string     `json:"warnings,omitempty"`
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

// AdminGroup is what the hosts of a group are told, and when their turn comes.
type AdminGroup struct {
	Group string        `json:"group"`
	State rollout.State `json:"state"`
	AdminAnswer
	// Starts is when the group starts or has started, if each group before it is
	// done within an hour; missing where Waits says what has to happen first.
	Starts time.Time `json:"starts,omitzero"`
	Waits  string    `json:"waits,omitempty"`
}

// AdminStatus is how the server does.
type AdminStatus struct {
	// SnapshotAge is for how many seconds nobody has known whether hosts are told
	// what the store says, and StoreError why.
	SnapshotAge float64   `json:"snapshot_age_seconds"`
	StoreError  string    `json:"store_error,omitempty"`
	LastTick    time.Time `json:"last_tick,omitzero"`
	LastWrite   time.Time `json:"last_write,omitzero"`
	EngineError string    `json:"engine_error,omitempty"`
	// Waiting says that no group goes on until hosts have had time to report.
	Waiting bool `json:"waiting_for_reports"`
	// Full says which bounds on what hosts make up are reached, or nearly so, and what follows.
	Full []string `json:"full,omitempty"`
}

// AdminError says why something was not done.
type AdminError struct {
	Error string `json:"error"`
}

// NewAdmin returns the handler of the admin API. Whoever reaches it may do
// everything: it belongs behind a socket that only the right people can open, or behind
// RequireAccess.
//
//	GET /v1/resources/KIND       the resource in JSON, with its revision
//	GET /v1/resources/KIND/NAME  the same, of a kind of which there are several
//	PUT /v1/resources            resources in YAML or JSON, all of which are written or
//	                             none; an AdminResult comes back
//	GET /v1/resources            all of them, an AdminResources
//	DELETE /v1/resources/autoupdate_version
//	                             no version is set any more; an AdminResult
//	GET /v1/status               an AdminStatus
//	GET /v1/overview             an AdminOverview
//	POST /v1/orders              carries out an AdminOrder; an AdminOrderResult
//	GET /v1/channels             an AdminChannels
//	GET /v1/why                  an AdminWhy; parameters host, group, update_id
//	GET /v1/counts               an AdminCounts
//	GET /v1/hosts                an AdminHosts; parameters group, state, version, after, limit
//	GET /v1/hosts/ID             an AdminHost
//	DELETE /v1/hosts/ID          removes a host, which may join again then
//	GET /v1/tokens               an AdminTokens
//	POST /v1/tokens              makes the token of an AdminTokenRequest; an AdminToken
//	DELETE /v1/tokens/NAME       revokes a token: nobody joins by it any more; with hosts=true
//	                             the hosts that have joined by it are removed, too
//	GET /v1/access               an AdminAccess; over the socket only, as the next two
//	POST /v1/access              makes the token of an AdminAccessRequest; an AdminAccessToken
//	DELETE /v1/access/NAME       revokes it
//	GET /v1/history              an AdminHistory; parameter limit
//	GET /v1/asked                an AdminAsked
//
// Parameters of PUT are dry_run=true, which all changes take, and new=true for resources that must not be
// there yet; reason, of every change, is kept in the history. Errors are 400 for what is not well formed,
// 401 without an access token that holds, 403 for what its role may not do, 404 for what is not there,
// 409 where the answers come from somewhere else, 412 for another revision than
// the resource names, 422 for what this server cannot do, and 503 when the store
// cannot be used.
func NewAdmin(opts AdminOptions) http.Handler {
	a := &api{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/resources/{kind}", a.get)
	mux.HandleFunc("GET /v1/resources/{kind}/{name...}", a.get)
	mux.HandleFunc("PUT /v1/resources", a.put)
	mux.HandleFunc("GET /v1/resources", a.all)
	mux.HandleFunc("DELETE /v1/resources/"+rollout.KindVersion, a.forget)
	mux.HandleFunc("GET /v1/status", a.status)
	mux.HandleFunc("GET /v1/overview", a.overview)
	mux.HandleFunc("POST /v1/orders", a.order)
	mux.HandleFunc("GET /v1/why", a.why)
	mux.HandleFunc("GET /v1/channels", a.channels)
	a.fleetRoutes(mux)
	if a.Access != nil {
		mux.HandleFunc("GET /v1/access", a.access)
		mux.HandleFunc("POST /v1/access", a.addAccess)
		mux.HandleFunc("DELETE /v1/access/{name}", a.revokeAccess)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if needs(w, r, neededFor(r)) {
			mux.ServeHTTP(w, r)
		}
	})
}

type api struct{ AdminOptions }

func (a *api) get(w http.ResponseWriter, r *http.Request) {
	kind := r.PathValue("kind")
	if !a.known(w, kind) {
		return
	}
	resource, err := a.Stored.Get(r.Context(), kind, r.PathValue("name"))
	if err != nil {
		fail(w, strings.TrimSuffix(kind+" "+r.PathValue("name"), " "), err)
		return
	}
	body, err := rollout.JSON(resource)
	if err != nil {
		fail(w, kind, err)
		return
	}
	reply(w, http.StatusOK, json.RawMessage(body))
}

func (a *api) put(w http.ResponseWriter, r *http.Request) {
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
	if !needs(w, r, resourceRole(list)) {
		return
	}
	query := r.URL.Query()
	options := ApplyOptions{DryRun: dryRun(r), New: query.Get("new") == "true", Who: peer(r.Context()), Why: query.Get("reason")}
	applied, err := a.Stored.Apply(r.Context(), list, options)
	if err != nil {
		fail(w, "", err)
		return
	}
	result := AdminResult{
		Notes: applied.Notes, Warnings: applied.Warnings, Answer: adminAnswer(applied.Answer),
	}
	if a.Engine != nil {
		result.Warnings = append(result.Warnings, a.Engine.Foresee(applied.Scene)...)
	}
	for _, g := range applied.Groups {
		result.Groups = append(result.Groups, AdminGroup{Group: g.Group, State: g.State, AdminAnswer: adminAnswer(g.Answer), Starts: g.At, Waits: g.Waits})
	}
	if a.Engine != nil && !options.DryRun {
		// Who looks next sees the rollout that this begins. Should it fail, Run
		// says so and tries again.
		a.Engine.Tick(r.Context())
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

func adminAnswer(a find.Answer) AdminAnswer {
	return AdminAnswer{a.Version, string(a.Edition), a.AutoUpdate}
}

func (a *api) status(w http.ResponseWriter, _ *http.Request) {
	if a.Frozen != "" {
		reply(w, http.StatusConflict, AdminError{a.Frozen})
		return
	}
	reply(w, http.StatusOK, a.serverStatus())
}

func (a *api) serverStatus() (status AdminStatus) {
	age, err := a.Stored.Age()
	status.SnapshotAge = age.Seconds()
	if err != nil {
		status.StoreError = err.Error()
	}
	if a.Fleet != nil {
		status.Full = a.Fleet.Full()
	}
	if a.Engine != nil {
		engine := a.Engine.Status()
		status.LastTick, status.LastWrite, status.Waiting = engine.LastTick, engine.LastWrite, engine.Waiting
		if engine.Err != nil {
			status.EngineError = engine.Err.Error()
		}
	}
	return status
}

func (a *api) known(w http.ResponseWriter, kind string) bool {
	switch {
	case a.Frozen != "":
		reply(w, http.StatusConflict, AdminError{a.Frozen})
	case !slices.Contains(rollout.Kinds, kind) && !slices.Contains(rollout.SystemKinds, kind):
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
	} else if _, ok := errors.AsType[*rollout.RefusedError](err); ok {
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
