package admin

import (
	"net/http"

	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

func (a *api) access(w http.ResponseWriter, r *http.Request) {
	list, err := a.Access.List(r.Context())
	if err != nil {
		a.fail(w, "access token", err)
		return
	}
	parts.Reply(w, http.StatusOK, adminapi.AccessTokens{Tokens: list})
}

func (a *api) addAccess(w http.ResponseWriter, r *http.Request) {
	var request adminapi.AccessRequest
	if !decode(w, r, &request) {
		return
	}
	made, err := a.Access.Add(r.Context(), request, a.audit(r), dryRun(r))
	if err != nil {
		a.fail(w, "access token", err)
		return
	}
	if made.Token != "" {
		a.Log.Info("an access token was made", "token", made.Name, "role", made.Role, "expires", made.Expires, "by", made.By)
	}
	parts.Reply(w, http.StatusOK, made)
}

func (a *api) revokeAccess(w http.ResponseWriter, r *http.Request) {
	if a.revoke(w, r, "access token", a.Access.Revoke) {
		a.access(w, r)
	}
}
