package health

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTheReadyURLCountsOnlyWithItsOwn200(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("fine")) })
	mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/no", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.Handle("/moved", http.RedirectHandler("/ok", http.StatusFound))
	server := httptest.NewServer(mux)
	defer server.Close()
	secure := httptest.NewUnstartedServer(mux)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	const nobody = "http://127.0.0.1:1"
	t.Setenv("HTTP_PROXY", nobody)

	for _, w := range []struct {
		name, url string
		ok        bool
		detail    string
	}{
		{"200", server.URL + "/ok", true, ""},
		{"204", server.URL + "/empty", false, "204"},
		{"503", server.URL + "/no", false, "answers 503"},
		{"a redirect", server.URL + "/moved", false, "answers 302"},
		{"nobody", nobody + "/ok?token=secret", false, "does not answer"},
		{"a certificate that nobody vouches for", secure.URL + "/ok", false, "does not answer"},
	} {
		t.Run(w.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := &prober{}
			if p.answer().ok {
				t.Error("ready before it was asked")
			}
			go p.run(ctx, w.url)
			for began := time.Now(); p.latest.Load() == nil && time.Since(began) < time.Minute; {
				time.Sleep(time.Millisecond)
			}
			r := p.answer()
			if r.ok != w.ok || !strings.Contains(r.detail, w.detail) || strings.Contains(r.detail, "secret") {
				t.Errorf("%+v; want ok %v, detail %q", r, w.ok, w.detail)
			}
		})
	}
}

func TestTheReadyURLIsShownWithoutSecrets(t *testing.T) {
	for _, w := range []struct{ url, want string }{
		{"http://127.0.0.1:3000/readyz", "http://127.0.0.1:3000/readyz"},
		{"https://user:pass@host/readyz?token=x#y", "https://host/readyz"},
		{"127.0.0.1:3000", ""},
		{"unix:/run/teleport.sock", ""},
		{"http:///readyz", ""},
		{"", ""},
	} {
		got, err := readyName(w.url)
		if got != w.want || (err == nil) != (w.want != "") {
			t.Errorf("%q is shown as %q, %v; want %q", w.url, got, err, w.want)
		}
	}
}
