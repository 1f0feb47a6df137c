// Package admin is the admin API of the find server: its addresses, the rights for each, and their effects in
// the other rooms. Over the socket a caller may do everything; over TCP an access token limits the caller.
package admin

import (
	"net/http"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

// New returns the handler of the admin API. It allows everything unless RequireAccess
// stands before it, so it belongs behind a socket that only the right people can open,
// or behind RequireAccess.
//
//	GET /v1/resources/KIND       the resource in JSON, with its revision
//	GET /v1/resources/KIND/NAME  the same, if the kind has several resources
//	PUT /v1/resources            writes resources in YAML or JSON, all or none of them;
//	                             an adminapi.Result
//	GET /v1/resources            all of them, an adminapi.Resources
//	DELETE /v1/resources/autoupdate_version
//	                             removes the version; an adminapi.Result
//	DELETE /v1/resources/autoupdate_notify/NAME
//	                             removes a webhook
//	POST /v1/notify/NAME/test    has this server post a test event to a webhook; 422 if it was not delivered
//	GET /v1/status               an adminapi.Status
//	GET /v1/overview             an adminapi.Overview; with counts=last by the engine's last counts, which takes no
//	                             longer for a million hosts than for ten
//	POST /v1/orders              carries out an adminapi.Order; an adminapi.OrderResult
//	GET /v1/channels             an adminapi.Channels
//	GET /v1/why                  an adminapi.Why; parameters host, group, update_id
//	GET /v1/counts               an adminapi.Counts
//	GET /v1/hosts                an adminapi.Hosts; parameters group, hostname, state, version, after, limit; with
//	                             total=false nothing is counted, and a page of a million hosts takes milliseconds
//	GET /v1/hosts/ID             an adminapi.Host
//	DELETE /v1/hosts/ID          removes a host, which may join again then
//	POST /v1/hosts/ID            gives a host the order of an adminapi.HostOrder; an adminapi.Host
//	GET /v1/tokens               an adminapi.Tokens
//	POST /v1/tokens              makes the token of an adminapi.TokenRequest; an adminapi.Token
//	DELETE /v1/tokens/NAME       revokes a token: nobody can join by it; with hosts=true
//	                             its hosts are removed, too
//	GET /v1/access               an adminapi.AccessTokens; over the socket only, as the next two
//	POST /v1/access              makes the token of an adminapi.AccessRequest; an adminapi.AccessToken
//	DELETE /v1/access/NAME       revokes it
//	GET /v1/history              an adminapi.History; parameters limit and host, an ID
//
// All changes take the parameters dry_run=true, and reason, which is kept in the history. PUT also takes
// new=true for resources that must not be there yet. Errors are 400 for a malformed request, 401 without a
// valid access token, 403 for an act that the token's role does not allow, 404 for a missing item, 409 if
// the answers come from somewhere else, 412 if the store has another revision than the resource names,
// 422 for a request that this server cannot grant, and 503 if the store cannot be used or, for hosts and
// tokens, while they are being loaded.
func New(opts Options) http.Handler {
	a := &api{opts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/resources/{kind}", a.get)
	mux.HandleFunc("GET /v1/resources/{kind}/{name...}", a.get)
	mux.HandleFunc("PUT /v1/resources", a.put)
	mux.HandleFunc("GET /v1/resources", a.all)
	mux.HandleFunc("DELETE /v1/resources/"+rollout.KindVersion, a.forget)
	mux.HandleFunc("DELETE /v1/resources/"+rollout.KindNotify+"/{name}", a.forgetHook)
	mux.HandleFunc("POST /v1/notify/{name}/test", a.testHook)
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

// fleetRoutes are the parts of the admin API that are about hosts.
func (a *api) fleetRoutes(mux *http.ServeMux) {
	for pattern, do := range map[string]http.HandlerFunc{
		"GET /v1/counts": a.counts, "GET /v1/hosts": a.hosts, "GET /v1/hosts/{id}": a.host, "DELETE /v1/hosts/{id}": a.revokeHost,
		"POST /v1/hosts/{id}": a.orderHost,
		"GET /v1/tokens":      a.tokens, "POST /v1/tokens": a.addToken, "DELETE /v1/tokens/{name}": a.revokeToken,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case a.Fleet == nil:
				parts.Reply(w, http.StatusConflict, adminapi.Error{Error: "this server takes no reports of hosts"})
			case !a.Fleet.AwaitLoaded(r.Context()):
				// A host that is not loaded yet would look like one that never joined.
				w.Header().Set("Retry-After", "1")
				parts.Reply(w, http.StatusServiceUnavailable, adminapi.Error{
					Error: "the server has just started and is loading the hosts that it knows: ask again in some seconds"})
			default:
				do(w, r)
			}
		})
	}
	mux.HandleFunc("GET /v1/history", a.history)
}
