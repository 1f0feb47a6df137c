package admin

import (
	"errors"
	"net/http"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

var errNoHooks = errors.New("this server tells no webhooks")

// testHook posts a test event to a webhook. It changes nothing, and so leaves no record.
func (a *api) testHook(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	name := r.PathValue("name")
	err := parts.Refuse(errNoHooks)
	if a.Hooks != nil {
		err = a.Hooks.Test(r.Context(), name)
	}
	if err != nil {
		a.fail(w, rollout.NotifyKey(name), err)
		return
	}
	a.Log.Info("a webhook was tried", "webhook", name, "by", peer(r.Context()))
	parts.Reply(w, http.StatusOK, adminapi.Error{})
}

func (a *api) forgetHook(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	name := r.PathValue("name")
	options := answers.ApplyOptions{DryRun: dryRun(r), Who: peer(r.Context()), Why: r.URL.Query().Get("reason")}
	err := a.Stored.ForgetNotify(r.Context(), name, options)
	if errors.Is(err, store.ErrNotFound) {
		a.fail(w, rollout.NotifyKey(name), err)
		return
	}
	if err != nil {
		a.fail(w, rollout.KindNotify, err)
		return
	}
	if !options.DryRun {
		a.Log.Info("a webhook was removed", "webhook", name, "by", peer(r.Context()))
	}
	parts.Reply(w, http.StatusOK, adminapi.Error{})
}
