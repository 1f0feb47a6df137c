// Package page is the find server for people with a browser: how the rollout does and what happens next, its groups, the hosts
// and their errors, who changed what, and buttons for what a role may do.
//
// It knows the rest of the server by the admin API alone, whose handler it calls as the holder of an access token: what
// a token may not do there, it cannot do here, and the history names the token. No text of others gets into a page but
// through console.Lines (see api.ask) and the escapes of html/template. Nothing comes from elsewhere: the policy in the
// headers forbids it, inline scripts and styles, too. All views work without scripts.
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

// Path is where the page is.
const Path = "/ui/"

// Options are the parts of a page.
type Options struct {
	// API is the admin API.
	API http.Handler
	// As returns the context of requests to it by the holder of an access token.
	As func(ctx context.Context, token string, role adminapi.Role) context.Context
	// Holder returns whose access token has a hash. The error of one that does not hold is NoHolder.
	Holder func(ctx context.Context, hash string) (token string, role adminapi.Role, err error)
	// NoHolder is the error of a token that was never made, was revoked, or has expired.
	NoHolder error
	// Origin is that of the page in browsers, besides the one that the header Host names: a proxy may leave the port out of
	// Host. Empty: there is no other.
	Origin string
	// Version is that of the program.
	Version string
	Clock   func() time.Time
	Log     *slog.Logger
}

type page struct {
	opts     Options
	api      api
	sessions sessions
	rare     *slog.Logger // for what anybody can cause without a token
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

// frame is what each view has around it.
type frame struct {
	Title   string
	Here    string // the part of the page that the view belongs to
	Token   string // of who is signed in; empty for nobody
	Role    adminapi.Role
	CSRF    string
	Version string
	Notice  string // what was just done
	Refresh bool   // the view is worth looking at again
	View    any
}

// show answers with a view. Nothing of it is sent before all of it is there: half a page would be a lie.
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

// fail answers with why the admin API did not do something.
func (p *page) fail(w http.ResponseWriter, v *visit, err error) {
	if r, is := errors.AsType[*refusal](err); is {
		p.problem(w, v, r.status, r.text)
		return
	}
	p.problem(w, v, http.StatusInternalServerError, err.Error())
}
