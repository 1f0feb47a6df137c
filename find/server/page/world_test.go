package page

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/page/pagetest"
)

// world is a find server with its page.
type world struct {
	*pagetest.World
	t       *testing.T
	handler http.Handler
	url     string
}

// served puts a page before a find server.
func served(t *testing.T, w *pagetest.World) *world {
	t.Helper()
	log := slog.New(w.Log)
	handler := New(Options{API: w.API, As: admin.As, Holder: w.Access.HolderOf, NoHolder: admin.ErrAccess, Version: "1.2.3", Clock: w.Clock, Log: log})
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return &world{World: w, t: t, handler: handler, url: srv.URL}
}

// browser is somebody at the page.
type browser struct {
	w    *world
	http *http.Client
	// csrf is that of the last page.
	csrf string
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{w: w, http: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// as is somebody who is signed in with the token of a role.
func (w *world) as(role adminapi.Role) *browser {
	w.t.Helper()
	b := w.browser()
	if resp := b.signIn(w.Tokens[role]); resp.StatusCode != http.StatusSeeOther {
		w.t.Fatalf("signing in as %s: %s", role, resp.Status)
	}
	return b
}

func (b *browser) signIn(token string) *http.Response {
	b.w.t.Helper()
	resp, _ := b.send(http.MethodPost, Path+"login", url.Values{"token": {token}}, nil)
	return resp
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// get returns the status and the text of a page.
func (b *browser) get(path string) (int, string) {
	b.w.t.Helper()
	resp, text := b.send(http.MethodGet, path, nil, nil)
	if m := csrfField.FindStringSubmatch(text); m != nil {
		b.csrf = m[1]
	}
	return resp.StatusCode, text
}

// send makes a request with a form and headers.
func (b *browser) send(method, path string, form url.Values, header map[string]string) (*http.Response, string) {
	b.w.t.Helper()
	req, err := http.NewRequestWithContext(b.w.t.Context(), method, b.w.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.w.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return resp, string(text)
}
