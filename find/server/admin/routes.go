// Package admin is the admin API of the find server: its addresses, who may use which of them, and what each
// does with the other rooms. Whoever reaches it over its socket may do everything; over TCP an access token says
// what its bearer may do.
package admin

import (
	"net/http"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

// New returns the handler of the admin API. Whoever reaches it may do
// everything: it belongs behind a socket that only the right people can open, or behind
// RequireAccess.
//
//	GET /v1/resources/KIND       the resource in JSON, with its revision
//	GET /v1/resources/KIND/NAME  the same, of a kind of which there are several
//	PUT /v1/resources            resources in YAML or JSON, all of which are written or
//	                             none; an adminapi.Result comes back
//	GET /v1/resources            all of them, an adminapi.Resources
//	DELETE /v1/resources/autoupdate_version
//	                             no version is set any more; an adminapi.Result
//	DELETE /v1/resources/autoupdate_notify/NAME
//	                             removes a webhook
//	GET /v1/notify               an adminapi.Hooks
//	POST /v1/notify/NAME/test    has this server tell a webhook that somebody tries it; 422 if it was not told
//	GET /v1/status               an adminapi.Status
//	GET /v1/overview             an adminapi.Overview; with counts=last by what the engine counted last, which takes no
//	                             longer of a million hosts than of ten
//	POST /v1/brake               has this server tell nobody to update, an adminapi.Brake; 503 while it could not be written
//	POST /v1/orders              carries out an adminapi.Order; an adminapi.OrderResult
//	GET /v1/channels             an adminapi.Channels
//	GET /v1/why                  an adminapi.Why; parameters host, group, update_id
//	GET /v1/counts               an adminapi.Counts
//	GET /v1/hosts                an adminapi.Hosts; parameters group, hostname, state, version, after, limit; with
//	                             total=false nothing is counted, and a page of a million hosts takes milliseconds
//	GET /v1/hosts/ID             an adminapi.Host
//	DELETE /v1/hosts/ID          removes a host, which may join again then
//	GET /v1/tokens               an adminapi.Tokens
//	POST /v1/tokens              makes the token of an adminapi.TokenRequest; an adminapi.Token
//	DELETE /v1/tokens/NAME       revokes a token: nobody joins by it any more; with hosts=true
//	                             the hosts that have joined by it are removed, too
//	GET /v1/access               an adminapi.AccessTokens; over the socket only, as the next two
//	POST /v1/access              makes the token of an adminapi.AccessRequest; an adminapi.AccessToken
//	DELETE /v1/access/NAME       revokes it
//	GET /v1/history              an adminapi.History; parameters limit and host, an ID
//	GET /v1/asked                an adminapi.Asked
//
// Parameters of PUT are dry_run=true, which all changes take, and new=true for resources that must not be
// there yet; reason, of every change, is kept in the history. Errors are 400 for what is not well formed,
// 401 without an access token that holds, 403 for what its role may not do, 404 for what is not there,
// 409 where the answers come from somewhere else, 412 for another revision than
// the resource names, 422 for what this server cannot do, and 503 when the store
// cannot be used or, of hosts and tokens, while they are being loaded.
func New(opts Options) http.Handler {
	a := &api{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/resources/{kind}", a.get)
	mux.HandleFunc("GET /v1/resources/{kind}/{name...}", a.get)
	mux.HandleFunc("PUT /v1/resources", a.put)
	mux.HandleFunc("GET /v1/resources", a.all)
	mux.HandleFunc("DELETE /v1/resources/"+rollout.KindVersion, a.forget)
	mux.HandleFunc("DELETE /v1/resources/"+rollout.KindNotify+"/{name}", a.forgetHook)
	mux.HandleFunc("GET /v1/notify", a.hooks)
	mux.HandleFunc("POST /v1/notify/{name}/test", a.testHook)
	mux.HandleFunc("GET /v1/status", a.status)
	mux.HandleFunc("GET /v1/overview", a.overview)
	mux.HandleFunc("POST /v1/brake", a.brake)
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

// fleetRoutes are the parts of the admin API that are about hosts.
func (a *api) fleetRoutes(mux *http.ServeMux) {
	for pattern, do := range map[string]http.HandlerFunc{
		"GET /v1/counts": a.counts, "GET /v1/hosts": a.hosts, "GET /v1/hosts/{id}": a.host, "DELETE /v1/hosts/{id}": a.revokeHost,
		"GET /v1/tokens": a.tokens, "POST /v1/tokens": a.addToken, "DELETE /v1/tokens/{name}": a.revokeToken,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case a.Frozen != "":
				parts.Reply(w, http.StatusConflict, adminapi.Error{Error: a.Frozen})
			case a.Fleet == nil:
				parts.Reply(w, http.StatusConflict, adminapi.Error{Error: "this server takes no reports of hosts"})
			case !a.Fleet.AwaitLoaded(r.Context()):
				// A host that is not loaded yet would be one that never joined.
				w.Header().Set("Retry-After", "1")
				parts.Reply(w, http.StatusServiceUnavailable, adminapi.Error{
					Error: "the server has just started and is loading the hosts that it knows: ask again in some seconds"})
			default:
				do(w, r)
			}
		})
	}
	mux.HandleFunc("GET /v1/history", a.history)
	mux.HandleFunc("GET /v1/asked", a.asked)
}
