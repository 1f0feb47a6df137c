package page

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/page/pagetest"
	"teleport-update/find/store"
)

func TestWithoutSigningInThereIsNoView(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	b := w.browser()
	for _, path := range []string{Path, Path + "hosts", Path + "hosts/" + pagetest.HostID(0), Path + "history"} {
		resp, page := b.send(http.MethodGet, path, nil, nil)
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != Path+"login?to="+url.QueryEscape(path) || strings.Contains(page, "web-") {
			t.Errorf("%s: %s, to %s: %s", path, resp.Status, resp.Header.Get("Location"), page)
		}
	}
	// A token in the header is for the API, which no browser sends by itself.
	if resp, _ := b.send(http.MethodGet, Path, nil, map[string]string{"Authorization": "Bearer " + w.Tokens[adminapi.Admin]}); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("with a token in the header: %s", resp.Status)
	}
	if resp, _ := b.send(http.MethodGet, Path, nil, map[string]string{"Cookie": plainCookie + "=" + w.Tokens[adminapi.Admin]}); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("with a token as the cookie: %s", resp.Status)
	}
}

func TestTheCookieIsOfASession(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	for name, tc := range map[string]struct {
		edit   func(*http.Request)
		cookie string
		secure bool
	}{
		"plain http":         {func(*http.Request) {}, plainCookie, false},
		"TLS":                {func(r *http.Request) { r.TLS = &tls.ConnectionState{} }, secureCookie, true},
		"a proxy before it":  {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") }, secureCookie, true},
		"a chain of proxies": {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https, http") }, secureCookie, true},
		"a chain from plain": {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "http,https") }, plainCookie, false},
		"a proxy over plain": {func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "http") }, plainCookie, false},
	} {
		req := httptest.NewRequest(http.MethodPost, Path+"login", strings.NewReader(url.Values{"token": {w.Tokens[adminapi.Viewer]}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		tc.edit(req)
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, req)
		cookies := rec.Result().Cookies()
		if rec.Code != http.StatusSeeOther || len(cookies) != 1 {
			t.Fatalf("%s: %d with the cookies %v", name, rec.Code, cookies)
		}
		c := cookies[0]
		if c.Name != tc.cookie || c.Secure != tc.secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.MaxAge <= 0 {
			t.Errorf("%s: the cookie is %v", name, c)
		}
		if len(c.Value) < 40 || strings.Contains(w.Tokens[adminapi.Viewer], c.Value) || strings.Contains(c.Value, "teleport-find-access") {
			t.Errorf("%s: the cookie's value is %q", name, c.Value)
		}
		if rec.Header().Get("Location") != Path {
			t.Errorf("%s: it leads to %s", name, rec.Header().Get("Location"))
		}
	}
}

// A session ends at once with its token, with a sign-out, by the clock, and when another token takes the name.
func TestASessionEndsWithItsToken(t *testing.T) {
	audit := store.Audit{Who: "uid 0"}
	for name, end := range map[string]func(*world, *browser){
		"revoked": func(w *world, _ *browser) {
			if err := w.Access.Revoke(t.Context(), "viewer", audit, false); err != nil {
				t.Fatal(err)
			}
		},
		"another of the name": func(w *world, _ *browser) {
			if err := w.Access.Revoke(t.Context(), "viewer", audit, false); err != nil {
				t.Fatal(err)
			}
			w.Token("viewer", adminapi.Admin)
		},
		"signed out": func(_ *world, b *browser) {
			b.get(Path)
			if resp, _ := b.send(http.MethodPost, Path+"logout", url.Values{"csrf": {b.csrf}}, nil); resp.StatusCode != http.StatusSeeOther {
				t.Errorf("signing out: %s", resp.Status)
			}
		},
		"over": func(w *world, _ *browser) { w.Pass(sessionLife + time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t, pagetest.New(t))
			b := w.as(adminapi.Viewer)
			u, err := url.Parse(w.url)
			if err != nil {
				t.Fatal(err)
			}
			cookie := b.http.Jar.Cookies(u)[0].String()
			if status, _ := b.get(Path); status != http.StatusOK {
				t.Fatalf("signed in: %d", status)
			}
			end(w, b)
			// Not only the browser has forgotten the cookie.
			if resp, _ := w.browser().send(http.MethodGet, Path, nil, map[string]string{"Cookie": cookie}); resp.StatusCode != http.StatusSeeOther {
				t.Errorf("it goes on: %s", resp.Status)
			}
		})
	}
}

// The role is that of the token now, and a token that expires ends the session.
func TestATokenThatExpires(t *testing.T) {
	w := served(t, pagetest.New(t))
	made, err := w.Access.Add(t.Context(), adminapi.AccessRequest{Name: "short", Role: adminapi.Viewer, ExpiresIn: "1h"}, store.Audit{Who: "uid 0"}, false)
	if err != nil {
		t.Fatal(err)
	}
	b := w.browser()
	b.signIn(made.Token)
	if status, _ := b.get(Path); status != http.StatusOK {
		t.Fatalf("signed in: %d", status)
	}
	w.Pass(time.Hour + time.Second)
	if status, _ := b.get(Path); status != http.StatusSeeOther {
		t.Errorf("after the token has expired: %d", status)
	}
}

// Everybody behind one proxy has one address: a person there signs in, whatever others try.
func TestARightTokenSignsInAfterManyWrongOnes(t *testing.T) {
	w := served(t, pagetest.New(t))
	b := w.browser()
	for i := range 100 {
		if resp, page := b.send(http.MethodPost, Path+"login", url.Values{"token": {"teleport-find-access-wrong"}}, nil); resp.StatusCode != http.StatusUnauthorized ||
			!strings.Contains(page, "There is no such access token") {
			t.Fatalf("attempt %d: %s %s", i, resp.Status, page)
		}
	}
	if resp := b.signIn(w.Tokens[adminapi.Admin]); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("with the right token: %s", resp.Status)
	}
	if strings.Contains(w.Log.String(), "teleport-find-access-wrong") {
		t.Error("the log has what was tried")
	}
}

func TestSessionsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := sessions{clock: func() time.Time { now = now.Add(time.Millisecond); return now }}
	first, second := s.begin("a"), s.begin("b")
	for range maxSessions - 1 {
		s.begin("c")
	}
	if s.of(first) != nil || s.of(second) == nil || len(s.byID) != maxSessions {
		t.Errorf("%d sessions; the first is there: %t, the second: %t", len(s.byID), s.of(first) != nil, s.of(second) != nil)
	}
	if s.of("") != nil {
		t.Error("an empty cookie is a session")
	}
}

// Where a login leads to is in the address, which anybody can write.
func TestALoginLeadsToThisPageOnly(t *testing.T) {
	for to, want := range map[string]string{
		"": Path, Path: Path, Path + "hosts?state=failed": Path + "hosts?state=failed", "https://evil.example/ui/": Path, "//evil.example/ui/": Path,
		"/\\evil.example": Path, "/ui/\\evil": Path, "javascript:alert(1)": Path, "/v1/resources": Path, "\x00": Path, "/ui/../v1/x": Path,
	} {
		got := ours(to)
		if got != want {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

// Another site's page cannot sign anybody in or out, whatever the browser sends along.
func TestARequestOfAnotherSiteIsRefused(t *testing.T) {
	w := served(t, pagetest.Rolling(t))
	b := w.as(adminapi.Admin)
	b.get(Path)
	for name, header := range map[string]map[string]string{
		"cross-site": {"Sec-Fetch-Site": "cross-site"}, "same-site": {"Sec-Fetch-Site": "same-site"}, "origin": {"Origin": "https://evil.example"}, "null": {"Origin": "null"},
	} {
		for _, path := range []string{Path + "logout", Path + "login"} {
			resp, _ := b.send(http.MethodPost, path, url.Values{"csrf": {b.csrf}, "token": {w.Tokens[adminapi.Admin]}}, header)
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("%s to %s: %s", name, path, resp.Status)
			}
		}
	}
	// A proxy leaves the port out of Host, and a browser sends no Sec-Fetch-Site: the public URL is the page's own origin, alone.
	w.handler = New(Options{API: w.API, As: admin.As, Holder: w.Access.HolderOf, NoHolder: admin.ErrAccess, Origin: "https://find.example.com:8443", Clock: w.Clock,
		Log: slog.New(w.Log)})
	for origin, want := range map[string]int{
		"https://find.example.com:8443": http.StatusSeeOther, "https://find.example.com": http.StatusSeeOther, "https://find.example.com:8444": http.StatusForbidden,
		"https://evil.example": http.StatusForbidden,
	} {
		req := httptest.NewRequest(http.MethodPost, "http://find.example.com"+Path+"login", strings.NewReader(url.Values{"token": {w.Tokens[adminapi.Viewer]}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", origin)
		rec := httptest.NewRecorder()
		w.handler.ServeHTTP(rec, req)
		if rec.Code != want {
			t.Errorf("from %s: %d; want %d", origin, rec.Code, want)
		}
	}
	for _, csrf := range []string{"", "wrong"} {
		if resp, _ := b.send(http.MethodPost, Path+"logout", url.Values{"csrf": {csrf}}, nil); resp.StatusCode != http.StatusForbidden {
			t.Errorf("the token %q: %s", csrf, resp.Status)
		}
	}
	if status, _ := b.get(Path); status != http.StatusOK {
		t.Errorf("the session is over: %d", status)
	}
}
