package page

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"teleport-update/find/server/parts"
)

// loginView is the form for an access token.
type loginView struct {
	To      string // the page to go to afterwards
	Problem string
}

func (p *page) loginForm(w http.ResponseWriter, r *http.Request) {
	p.showLogin(w, r, http.StatusOK, r.URL.Query().Get("to"), "")
}

func (p *page) showLogin(w http.ResponseWriter, r *http.Request, status int, to, problem string) {
	p.show(w, &visit{Request: r}, status, "login", frame{Title: "Sign in", View: loginView{To: ours(to), Problem: problem}})
}

// ours returns a path of this page. For an address elsewhere it returns the first view.
func ours(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Host != "" || u.Scheme != "" {
		return Path
	}
	if !strings.HasPrefix(u.Path, Path) || strings.Contains(u.Path, "..") || strings.Contains(to, "\\") {
		return Path
	}
	return u.RequestURI()
}

// login signs the holder of an access token in. It does not count wrong tokens: a token has 130 random bits, so nobody guesses
// one, and a limit for each address would keep out everybody behind one proxy.
func (p *page) login(w http.ResponseWriter, r *http.Request) {
	hash := parts.HashOfToken(strings.TrimSpace(r.PostFormValue("token")))
	token, role, err := p.opts.Holder(r.Context(), hash)
	switch {
	case errors.Is(err, p.opts.NoHolder):
		p.rare.Warn("an attempt to sign in at the page failed", "from", r.RemoteAddr)
		p.showLogin(w, r, http.StatusUnauthorized, r.PostFormValue("to"), "There is no such access token: it was never made, was "+
			"revoked, or has expired.")
	case err != nil:
		p.opts.Log.Error("nobody can sign in at the page, for the access tokens cannot be read", "error", err)
		p.showLogin(w, r, http.StatusServiceUnavailable, r.PostFormValue("to"), "The access tokens cannot be read, so nobody can "+
			"be let in. The server's log says why.")
	default:
		if old := p.sessions.of(cookieOf(r)); old != nil {
			p.sessions.end(old)
		}
		setCookie(w, r, p.sessions.begin(hash))
		p.opts.Log.Info("somebody signed in at the page", "token", token, "role", role, "from", r.RemoteAddr)
		http.Redirect(w, r, ours(r.PostFormValue("to")), http.StatusSeeOther)
	}
}

func (p *page) logout(w http.ResponseWriter, r *http.Request) {
	one := p.sessions.of(cookieOf(r))
	if one != nil && !one.says(r.PostFormValue("csrf")) {
		p.problem(w, &visit{Request: r}, http.StatusForbidden, "This form is not one of your session. You are still signed in.")
		return
	}
	if one != nil {
		p.sessions.end(one)
	}
	setCookie(w, r, "")
	http.Redirect(w, r, Path+"login", http.StatusSeeOther)
}
