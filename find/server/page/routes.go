package page

import (
	"io/fs"
	"log/slog"
	"net/http"

	"teleport-update/find/server/parts"
)

// New returns the handler of everything below Path, which also redirects from the root.
func New(opts Options) http.Handler {
	p := &page{opts: opts, api: api{handler: opts.API, as: opts.As}, rare: parts.Rare(opts.Log)}
	p.sessions.clock = opts.Clock
	static, err := fs.Sub(staticFiles, "static")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler(Path, http.StatusSeeOther))
	mux.Handle("GET "+Path+"static/", http.StripPrefix(Path+"static/", http.FileServerFS(static)))
	mux.HandleFunc("GET "+Path+"login", p.loginForm)
	mux.HandleFunc("POST "+Path+"login", p.login)
	mux.HandleFunc("POST "+Path+"logout", p.logout)
	for pattern, show := range map[string]func(http.ResponseWriter, *visit){
		"GET " + Path + "{$}":        p.overview,
		"GET " + Path + "hosts":      p.hosts,
		"GET " + Path + "hosts/{id}": p.host,
		"GET " + Path + "history":    p.history,
		"GET " + Path + "act":        p.ask,
		"POST " + Path + "act":       p.act,
	} {
		mux.HandleFunc(pattern, p.signedIn(show))
	}
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		p.problem(w, &visit{Request: r}, http.StatusNotFound, "There is no such page.")
	})
	return secured(mux, opts.Origin, opts.Log)
}

// policy allows only content from this server: a script in the name of a group would not run.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// maxForm bounds the bytes of a form.
const maxForm = 64 << 10

// secured sets headers against other sites in each answer, and refuses changes that another site's page asks for.
func secured(next http.Handler, origin string, log *slog.Logger) http.Handler {
	protection := http.NewCrossOriginProtection()
	if origin != "" {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			panic(err) // it was checked at the start of the program
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			w.Header().Set(name, value)
		}
		if err := protection.Check(r); err != nil {
			log.Warn("the page refused a request of another site", "from", r.RemoteAddr)
			http.Error(w, "This request came from another site's page: open the page of this server and try again.", http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}
