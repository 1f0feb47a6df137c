package report

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/internal/webclient"
)

const (
	token  = "teleport-find-abcdefghijklmnop"
	hostID = "11111111-0000-4000-8000-000000000000"
)

// request is what a server saw.
type request struct{ path, auth, body string }

// world is a host, and a server that answers as the test says.
type world struct {
	t        *testing.T
	r        *Reporter
	server   *httptest.Server
	answers  func(request) (int, string)
	requests []request
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, answers: func(request) (int, string) { return 200, "{}" }}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		one := request{r.URL.Path, r.Header.Get("Authorization"), string(body)}
		w.requests = append(w.requests, one)
		status, text := w.answers(one)
		rw.Header().Set("Location", "/elsewhere")
		rw.WriteHeader(status)
		io.WriteString(rw, text)
	}))
	t.Cleanup(w.server.Close)
	dir := t.TempDir()
	w.r = &Reporter{
		File: filepath.Join(dir, "report.json"), MachineID: filepath.Join(dir, "machine-id"),
		HTTP: func() (*http.Client, error) { return webclient.New(webclient.Options{}) },
		Now:  func() time.Time { return time.Date(2025, 6, 2, 11, 0, 0, 0, time.UTC) },
	}
	w.machine("0123456789abcdef0123456789abcdef")
	return w
}

func (w *world) machine(id string) {
	w.t.Helper()
	if err := os.WriteFile(w.r.MachineID, []byte(id+"\n"), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) enroll() {
	w.t.Helper()
	if err := w.r.Enroll(token, w.server.URL); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) send(host string) error {
	return w.r.Send(w.t.Context(), w.server.URL, find.Heartbeat{HostID: host, Hostname: "web-1", Version: "17.2.0"})
}

func (w *world) sent(host string) {
	w.t.Helper()
	if err := w.send(host); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) paths() string {
	var list []string
	for _, r := range w.requests {
		list = append(list, strings.TrimPrefix(r.path, "/v1/agents/"))
	}
	return strings.Join(list, " ")
}

func (w *world) file() credential {
	w.t.Helper()
	c, err := w.r.load()
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}
