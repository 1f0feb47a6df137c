package admin

import (
	"context"
	"net/http"

	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

func (a *api) tokens(w http.ResponseWriter, _ *http.Request) {
	parts.Reply(w, http.StatusOK, adminapi.Tokens{Tokens: a.Fleet.Tokens()})
}

func (a *api) addToken(w http.ResponseWriter, r *http.Request) {
	var request adminapi.TokenRequest
	if !decode(w, r, &request) {
		return
	}
	made, err := a.Fleet.AddToken(r.Context(), request, a.audit(r), dryRun(r))
	if err != nil {
		a.fail(w, "token", err)
		return
	}
	if made.Token == "" {
		parts.Reply(w, http.StatusOK, made)
		return
	}
	a.Log.Info("a join token was made", "token", made.Name, "groups", made.Groups, "expires", made.Expires, "by", made.By)
	parts.Reply(w, http.StatusOK, made)
}

func (a *api) revokeToken(w http.ResponseWriter, r *http.Request) {
	revoke := func(ctx context.Context, name string, audit store.Audit, dryRun bool) error {
		_, err := a.Fleet.RevokeToken(ctx, name, r.URL.Query().Get("hosts") == "true", audit, dryRun)
		return err
	}
	if a.revoke(w, r, "join token", revoke) {
		if !dryRun(r) {
			a.releaseRemoved(r, "the host's token was revoked")
		}
		a.tokens(w, r)
	}
}
