package main

import (
	"net/http"
	"strings"

	"teleport-update/find/server/admin"
	"teleport-update/find/server/page"
)

// withPage serves the page for browsers beside the admin API. Both need an access token: the API in each request, the page once.
func (a *source) withPage(api http.Handler) http.Handler {
	opts := page.Options{
		API: api, As: admin.As, Holder: a.access.HolderOf, NoHolder: admin.ErrAccess, Version: version, Clock: now, Log: a.log,
	}
	if a.public != nil {
		opts.Origin = a.public.String()
	}
	ui := page.New(opts)
	tokens := admin.RequireAccess(a.access, api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, page.Path) {
			ui.ServeHTTP(w, r)
			return
		}
		tokens.ServeHTTP(w, r)
	})
}
