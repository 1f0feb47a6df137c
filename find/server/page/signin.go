package page

import (
	"errors"
	"net/http"
	"net/url"
)

// signedIn calls show for visitors with a session whose token is still valid. It sends others to the login
// form.
func (p *page) signedIn(show func(http.ResponseWriter, *visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := p.visitor(r)
		switch {
		case err != nil:
			p.problem(w, &visit{Request: r}, http.StatusServiceUnavailable, "The access tokens cannot be read, so nobody can be let "+
				"in: "+err.Error())
		case v.session == nil && r.Method == http.MethodGet:
			http.Redirect(w, r, Path+"login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		case v.session == nil:
			p.problem(w, v, http.StatusUnauthorized, "You are not signed in any more. Sign in and try again.")
		case r.Method != http.MethodGet && !v.session.says(r.PostFormValue("csrf")):
			p.opts.Log.Warn("the page refused a form that is not its own", "token", v.Token)
			p.problem(w, v, http.StatusForbidden, "This form is not one of your session: open the page again and try once more.")
		default:
			show(w, v)
		}
	}
}

// visitor returns the visitor of a request, with the present role of the token.
func (p *page) visitor(r *http.Request) (*visit, error) {
	v := &visit{Request: r}
	one := p.sessions.of(cookieOf(r))
	if one == nil {
		return v, nil
	}
	token, role, err := p.opts.Holder(r.Context(), one.holder)
	if errors.Is(err, p.opts.NoHolder) {
		p.sessions.end(one)
		return v, nil
	}
	if err != nil {
		return v, err
	}
	v.session, v.Token, v.Role = one, token, role
	return v, nil
}
