package find

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"teleport-update/internal/webclient"
)

// What may pass by itself is told from what somebody has to mend.
func TestFindThatCannotBeReachedIsToldFromAWrongAnswer(t *testing.T) {
	answers := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	mute := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(mute.Close)
	hangsUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(hangsUp.Close)
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	for name, tc := range map[string]struct {
		proxy string
		want  bool
	}{
		"refused":                 {"http://127.0.0.1:1", true},
		"no such name":            {"https://proxy.invalid", true},
		"no answer in time":       {mute.URL, true},
		"no answer":               {hangsUp.URL, true},
		"502":                     {answers(502, "down"), true},
		"403":                     {answers(403, "no"), false},
		"404":                     {answers(404, ""), false},
		"not JSON":                {answers(200, "<html>"), false},
		"a version that is none":  {answers(200, `{"agent_version":"latest","server_edition":"oss"}`), false},
		"not trusted":             {untrusted.URL, false},
		"no TLS":                  {"https://" + answers(200, "")[len("http://"):], false},
		"an address that is none": {"ftp://proxy.example", false},
	} {
		client, err := webclient.New(webclient.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := Client{HTTP: client, Timeout: 2 * time.Second}
		if name == "no answer in time" {
			c.Timeout = 50 * time.Millisecond
		}
		_, err = c.Ask(t.Context(), Request{Proxy: tc.proxy})
		if err == nil || Unreachable(err) != tc.want {
			t.Errorf("%s: unreachable %v, want %v: %v", name, !tc.want, tc.want, err)
		}
	}
}
