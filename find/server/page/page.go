// Package page is the find server for people with a browser: the state of the rollout and its next steps, its groups, the
// hosts and their errors, the audit list, and buttons according to the visitor's role.
//
// It uses the rest of the server only through the handler of the admin API, as the holder of an access token: it cannot
// do anything that the token may not do there, and the history names the token. Text from others gets into a page only
// through console.Lines (see api.ask) and the escapes of html/template. All content comes from this server: the policy
// in the headers forbids other sources, and inline scripts and styles, too. All views work without scripts.
package page

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"teleport-update/find/server/adminapi"
)

// Path is the address of the page.
const Path = "/ui/"

// Options are the settings of a page.
type Options struct {
	// API is the admin API.
	API http.Handler
	// As returns a context for requests to API by the holder of an access token.
	As func(ctx context.Context, token string, role adminapi.Role) context.Context
	// Holder returns the name and role of the access token with a hash. If there is no valid one, the error is
	// NoHolder.
	Holder func(ctx context.Context, hash string) (token string, role adminapi.Role, err error)
	// NoHolder is the error of a token that was never made, was revoked, or has expired.
	NoHolder error
	// Origin is a further origin of the page in browsers, besides the header Host, in which a proxy may leave out the
	// port. It may be empty.
	Origin string
	// Version is the version of the program.
	Version string
	Clock   func() time.Time
	Log     *slog.Logger
}

type page struct {
	opts     Options
	api      api
	sessions sessions
	rare     *slog.Logger // for events that anybody can cause without a token
}

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// views are the templates, each with the frame around it.
var views = parseViews("overview", "hosts", "host", "history", "login", "problem", "act")

func parseViews(names ...string) map[string]*template.Template {
	all := make(map[string]*template.Template)
	for _, name := range names {
		all[name] = template.Must(template.New("frame.html").Funcs(words).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html",
			"templates/"+name+".html"))
	}
	return all
}

// frame is the common part of all views.
type frame struct {
	Title   string
	Here    string // the part of the page that the view belongs to
	Token   string // the name of the visitor's token; empty if not signed in
	Role    adminapi.Role
	CSRF    string
	Version string
	Notice  string // the result of the last action
	Refresh bool   // the view reloads itself
	View    any
}

// show answers with a view. It sends nothing before the view is complete: half a page would mislead.
func (p *page) show(w http.ResponseWriter, v *visit, status int, name string, f frame) {
	f.Version = p.opts.Version
	if v.session != nil {
		f.Token, f.Role, f.CSRF, f.Notice = v.Token, v.Role, v.session.csrf, v.session.takeNotice()
	}
	var body bytes.Buffer
	if err := views[name].Execute(&body, f); err != nil {
		p.opts.Log.Error("a view of the page cannot be shown", "view", name, "error", err)
		http.Error(w, "This view cannot be shown; the server's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(body.Bytes())
}

func (p *page) problem(w http.ResponseWriter, v *visit, status int, what string) {
	p.show(w, v, status, "problem", frame{Title: http.StatusText(status), View: what})
}

// fail answers with an error of the admin API.
func (p *page) fail(w http.ResponseWriter, v *visit, err error) {
	if r, is := errors.AsType[*refusal](err); is {
		p.problem(w, v, r.status, r.text)
		return
	}
	p.problem(w, v, http.StatusInternalServerError, err.Error())
}
