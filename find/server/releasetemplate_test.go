package server

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

// Without a template, answers are byte for byte those of servers that knew none.
func TestAnAnswerOffersATemplateOnlyIfThereIsOne(t *testing.T) {
	const (
		before = `{"server_edition":"enterprise","agent_version":"15.1.1","agent_autoupdate":true,"agent_update_jitter_seconds":10,`
		after  = `"edition":"ent","fips":false,"auto_update":{"agent_version":"15.1.1","agent_auto_update":true,"agent_update_jitter_seconds":10,` +
			`"tools_version":"15.1.1","tools_autoupdate":false,"tools_auto_update":false}}`
	)
	for template, field := range map[string]string{
		"": "",
		"https://find.example.com/releases/{{.Version}}.tar.gz": `"release_template":"https://find.example.com/releases/{{.Version}}.tar.gz",`,
	} {
		handler := New(Options{Answers: new(byGroup), ReleaseTemplate: template, Log: slog.New(slog.DiscardHandler)})
		for range 2 { // built, then remembered
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/v1/webapi/find?group=15.1.1", strings.NewReader("")))
			if got, want := w.Body.String(), before+field+after; got != want {
				t.Errorf("with the template %q: %s\nwant %s", template, got, want)
			}
		}
	}
}
