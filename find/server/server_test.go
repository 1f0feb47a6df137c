package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/internal/version"
)

// byGroup answers with the group as the version, and notes who asked.
type byGroup struct{ asked rollout.Query }

func (a *byGroup) Answer(string, string) find.Answer { panic("it is asked by AnswerAt alone") }

func (a *byGroup) Now() time.Time { return time.Time{} }

func (a *byGroup) AnswerAt(q rollout.Query, _ time.Time) find.Answer {
	a.asked = q
	return find.Answer{Version: q.Group, Edition: version.Enterprise, AutoUpdate: true, Jitter: 10 * time.Second}
}

func TestFind(t *testing.T) {
	asked := new(byGroup)
	server := httptest.NewServer(New(Options{Answers: asked, Log: slog.New(slog.DiscardHandler)}))
	defer server.Close()
	for _, tc := range []struct {
		method, path string
		status       int
		body         string // in the body
	}{
		{"GET", "/v1/webapi/find?group=15.1.1&host=0f2c", 200, `"server_edition":"enterprise","agent_version":"15.1.1","agent_autoupdate":true,"agent_update_jitter_seconds":10`},
		{"GET", "/webapi/find?host=0f2c&group=15.1.1&x=y&update_id=5d", 200, `"auto_update":{"agent_version":"15.1.1","agent_auto_update":true`},
		{"HEAD", "/webapi/find?host=0f2c&group=15.1.1", 200, ""},
		{"POST", "/webapi/find?host=0f2c&group=15.1.1", 405, ""},
		{"GET", "/webapi/find/", 404, ""},
		{"GET", "/", 404, ""},
		{"GET", "/healthz", 200, "ok"},
		{"OPTIONS", "/healthz", 200, "ok"},
		{"OPTIONS", "/", 200, "ok"},
		{"GET", "/releases/a.tar.gz", 404, ""},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			*asked = byGroup{}
			req, err := http.NewRequest(tc.method, server.URL+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, body := do(t, req)
			if resp.StatusCode != tc.status || !strings.Contains(body, tc.body) {
				t.Errorf("%s: %s", resp.Status, body)
			}
			if tc.status != 200 || tc.path == "/healthz" || tc.path == "/" {
				return
			}
			want := rollout.Query{Group: "15.1.1", Host: "0f2c"}
			if strings.Contains(tc.path, "update_id") {
				want.UpdaterID = "5d"
			}
			if asked.asked != want {
				t.Errorf("asked was %+v", *asked)
			}
			header := resp.Header
			if header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" || resp.ContentLength < 100 {
				t.Errorf("length %d, headers %v", resp.ContentLength, header)
			}
		})
	}
}

func TestAnAnswerThatCannotBeServedIsAnError(t *testing.T) {
	var log bytes.Buffer
	server := httptest.NewServer(New(Options{Answers: new(byGroup), Log: slog.New(slog.NewTextHandler(&log, nil))}))
	defer server.Close()
	resp, body := get(t, server.URL+"/v1/webapi/find?group=latest")
	if resp.StatusCode != 500 || !strings.Contains(log.String(), "latest") {
		t.Errorf("%s %s; log: %s", resp.Status, body, log.String())
	}
}

func TestWhatHostsSendIsRead(t *testing.T) {
	for _, tc := range []struct{ query, want string }{
		{"", ""}, {"group=a", "a"}, {"host=x&group=a", "a"}, {"group=a&group=b", "a"}, {"group=&group=b", ""}, {"group=", ""}, {"group", ""},
		{"groups=a", ""}, {"Group=a", ""}, {"xgroup=a", ""}, {"group=a%20b+c", "a b c"}, {"group=%zz", ""}, {"group=a=b", "a=b"},
		{"&&group=a", "a"}, {"group&group=a", "a"}, {"group=a%26host%3Db", "a&host=b"}, {"=a", ""}, {"=group=a", ""},
	} {
		if got := parseQuery(tc.query).Group; got != tc.want {
			t.Errorf("group of %q is %q; want %q", tc.query, got, tc.want)
		}
	}
	if got, want := parseQuery("update_id=u&host=h&group=g&host=x"), (rollout.Query{Group: "g", Host: "h", UpdaterID: "u"}); got != want {
		t.Errorf("got %+v", got)
	}
}

func TestBodiesAreBuiltOnceAndNotForEver(t *testing.T) {
	var b bodies
	answer := find.Answer{Version: "15.1.1", Edition: version.OSS}
	first, err := b.get(answer)
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxBodies - 1 {
		if again, _ := b.get(answer); &again[0] != &first[0] {
			t.Fatalf("after %d others the body was built again", i)
		}
		other := answer
		other.Version = fmt.Sprintf("15.2.%d", i)
		if _, err := b.get(other); err != nil {
			t.Fatal(err)
		}
	}
	answer.Version = "16.0.0"
	if _, err := b.get(answer); err != nil {
		t.Fatal(err)
	}
	if n := len(*b.current.Load()); n != 1 {
		t.Errorf("the cache holds %d; want it to have started anew", n)
	}
	if _, err := b.get(find.Answer{Version: "x"}); err == nil {
		t.Error("an answer that cannot be served has a body")
	}
}

func TestABodyThatNeverComesHoldsNoConnection(t *testing.T) {
	url, _ := start(t, New(Options{Answers: new(byGroup), Log: slog.New(slog.DiscardHandler)}), nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Errorf("got %q, %v", answer, err)
	}
}

func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	handler := New(Options{Answers: new(byGroup), Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	recorder := httptest.NewRecorder()
	req := httptest.NewRequest("GET", "/nothing", nil)
	req.Header.Set("Range", "\x1b[2J")
	handler.ServeHTTP(recorder, req)
	for _, want := range []string{"level=DEBUG", "method=GET", "path=/nothing", "status=404", fmt.Sprintf("bytes=%d", recorder.Body.Len())} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "\x1b") {
		t.Errorf("the log holds an escape: %q", log.String())
	}
}

func TestTheAccessLogIsASampleUnlessOneDebugs(t *testing.T) {
	const requests = 3000
	for level, all := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var log bytes.Buffer
		handler := New(Options{Answers: new(byGroup), AccessLog: true, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		began := time.Now()
		for range requests {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/nothing", nil))
		}
		seconds := int(time.Since(began)/time.Second) + 2 // that the requests may have been in
		lines := strings.Count(log.String(), "msg=request")
		if all && lines != requests || !all && (lines == 0 || lines > min(requests-1, seconds*parts.MaxAccessLines)) {
			t.Errorf("at %s the log has %d of %d requests in parts of %d seconds", level, lines, requests, seconds)
		}
	}
}

// start runs Serve on a free port. stop ends it and returns its error.
func start(t *testing.T, handler http.Handler, config *tls.Config) (url string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var result error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result = Serve(ctx, listener, config, handler, slog.New(slog.DiscardHandler))
	}()
	stop = func() error {
		cancel()
		<-done
		return result
	}
	t.Cleanup(func() { stop() })
	return "http://" + listener.Addr().String(), stop
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

func do(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

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
