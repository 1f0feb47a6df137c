package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/channels"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// Options are the parts of the admin API.
type Options struct {
	// Stored gives access to the resources.
	Stored *answers.Stored
	// Store has the history.
	Store store.Store
	// Engine steps the rollout, also right after a change.
	Engine *driver.Engine
	// Fleet is the hosts that report; may be nil.
	Fleet *inventory.Fleet
	// Channels is for the list of channels; may be nil.
	Channels *channels.Channels
	// Access has the tokens for access over TCP; may be nil.
	Access *Access
	// Hooks are the webhooks; may be nil.
	Hooks Hooks
	// Certificate returns when the certificate for hosts ends, or the zero time; may be nil.
	Certificate func() time.Time
	Log         *slog.Logger
}

// Hooks are the webhooks that get events.
type Hooks interface {
	// Test posts a test event to a webhook. The error is store.ErrNotFound if there is no webhook of the name,
	// and a *parts.RefusedError if the receiver did not take the event.
	Test(ctx context.Context, name string) error
	// Trouble lists the webhooks that miss events, and why.
	Trouble() []string
}

type api struct{ Options }

func (a *api) known(w http.ResponseWriter, kind string) bool {
	if slices.Contains(rollout.Kinds, kind) || slices.Contains(rollout.SystemKinds, kind) {
		return true
	}
	parts.Reply(w, http.StatusNotFound, adminapi.Error{Error: fmt.Sprintf("there are no resources of the kind %.60q", kind)})
	return false
}

func (a *api) fail(w http.ResponseWriter, kind string, err error) {
	status := http.StatusServiceUnavailable
	text := err.Error()
	if errors.Is(err, store.ErrNotFound) {
		status, text = http.StatusNotFound, "there is no "+kind+" in the store"
	} else if _, ok := errors.AsType[*store.ConflictError](err); ok {
		status = http.StatusPreconditionFailed
	} else if _, ok := errors.AsType[*parts.RefusedError](err); ok {
		status = http.StatusUnprocessableEntity
	} else if _, ok := errors.AsType[*rollout.RefusedError](err); ok {
		status = http.StatusUnprocessableEntity
	}
	if status == http.StatusServiceUnavailable && a.Stored.Resting() != nil {
		text += "; no host is told to update until the store can be read and written"
	}
	parts.Reply(w, status, adminapi.Error{Error: text})
}

func dryRun(r *http.Request) bool { return r.URL.Query().Get("dry_run") == "true" }

// decode reads the body of a request. If it is malformed, decode answers with the error.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxResource))
	if err == nil {
		err = rollout.DecodeJSON(body, into)
	}
	if err != nil {
		parts.Reply(w, http.StatusBadRequest, adminapi.Error{Error: err.Error()})
	}
	return err == nil
}

// revoke revokes the token that a request names, or answers with the error.
func (a *api) revoke(w http.ResponseWriter, r *http.Request, what string, revoke func(ctx context.Context, name string, audit store.Audit,
	dryRun bool) error) bool {
	name := r.PathValue("name")
	err := revoke(r.Context(), name, a.audit(r), dryRun(r))
	if errors.Is(err, store.ErrNotFound) {
		parts.Reply(w, http.StatusNotFound, adminapi.Error{Error: fmt.Sprintf("there is no %s %.80q", what, name)})
		return false
	}
	if err != nil {
		a.fail(w, what, err)
		return false
	}
	if !dryRun(r) {
		a.Log.Info("a token was revoked", "kind", what, "token", name, "by", peer(r.Context()))
	}
	return true
}

// audit returns who makes a request, and why.
func (a *api) audit(r *http.Request) store.Audit {
	return store.Audit{Time: a.Stored.Now(), Who: peer(r.Context()), Why: r.URL.Query().Get("reason")}
}

// number reads a parameter, and lowers it to a limit.
func number(w http.ResponseWriter, r *http.Request, name string, usual, limit int) (int, bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return usual, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		parts.Reply(w, http.StatusBadRequest, adminapi.Error{Error: fmt.Sprintf("%s=%.40q is not a number from 1 on", name, text)})
		return 0, false
	}
	return min(n, limit), true
}

// steered reports whether an engine runs. If not, it answers with an error.
func (a *api) steered(w http.ResponseWriter) bool {
	if a.Engine == nil {
		parts.Reply(w, http.StatusServiceUnavailable, adminapi.Error{Error: "this server runs no engine"})
	}
	return a.Engine != nil
}
