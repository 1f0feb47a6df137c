package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

const (
	configText = `{"kind":"autoupdate_config","metadata":{"name":"autoupdate-config"},"spec":{"agents":{"mode":"enabled","schedules":{"regular":[%s]}}}}`
	devProd    = `{"name":"dev","days":["*"],"start_hour":12},{"name":"prod","days":["*"],"start_hour":14}`
	version    = `{"kind":"autoupdate_version","metadata":{"name":"autoupdate-version"},"spec":{"agents":{"start_version":"17.2.0","target_version":"17.2.1"}}}`
)

// world is a find server with its page, with a clock that a test sets.
type world struct {
	t       *testing.T
	mu      sync.Mutex
	now     time.Time
	store   *store.SQLite
	stored  *answers.Stored
	fleet   *inventory.Fleet
	engine  *driver.Engine
	access  *admin.Access
	reports *inventory.Reports
	api     http.Handler
	handler http.Handler
	url     string
	tokens  map[adminapi.Role]string
	join    string
	last    map[int]uint32
	log     logged
}

type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2025, 6, 2, 11, 0, 0, 0, time.UTC), tokens: make(map[adminapi.Role]string), last: make(map[int]uint32)}
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.store, err = store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	must(err)
	t.Cleanup(func() { w.store.Close() })
	w.stored, err = answers.NewStored(t.Context(), answers.StoredOptions{Store: w.store, Base: find.Answer{AutoUpdate: true, Edition: "oss"}, Clock: w.clock, Log: log})
	must(err)
	w.fleet, err = inventory.OpenFleet(t.Context(), inventory.FleetOptions{Store: w.store, Clock: w.clock, Named: w.stored.Named, Log: log})
	must(err)
	w.engine = driver.NewEngine(driver.Options{
		Store: w.store, Clock: w.clock, Plans: w.stored.Plans(), Inventory: w.fleet, Written: w.stored.Refresh, Brake: w.stored, Log: log,
	})
	w.access = admin.NewAccess(w.store, w.clock)
	w.reports = inventory.NewReports(w.fleet, log)
	w.api = admin.New(admin.Options{Stored: w.stored, Store: w.store, Engine: w.engine, Fleet: w.fleet, Access: w.access, Log: log})
	w.handler = New(Options{API: w.api, As: admin.As, Holder: w.access.HolderOf, NoHolder: admin.ErrAccess, Version: "1.2.3", Clock: w.clock, Log: log})
	srv := httptest.NewServer(w.handler)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	for _, role := range adminapi.Roles {
		w.tokens[role] = w.token(string(role), role)
	}
	made, err := w.fleet.AddToken(t.Context(), adminapi.TokenRequest{Name: "all"}, store.Audit{Who: "uid 0", Time: w.now}, false)
	must(err)
	w.join = made.Token
	return w
}

func (w *world) token(name string, role adminapi.Role) string {
	w.t.Helper()
	made, err := w.access.Add(w.t.Context(), adminapi.AccessRequest{Name: name, Role: role}, store.Audit{Who: "uid 0", Time: w.clock()}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return made.Token
}

// apply writes resources, and has the engine look.
func (w *world) apply(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		list, err := rollout.Parse([]byte(text))
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.stored.Apply(w.t.Context(), list, answers.ApplyOptions{Who: "uid 0"}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.tick()
}

func (w *world) tick() {
	w.t.Helper()
	if err := w.fleet.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.engine.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.stored.Refresh(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func hostID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i+1) }

func secretOf(i int) string { return fmt.Sprintf("%064x", i+1) }

// joined has a host join.
func (w *world) joined(i int, group, hostname string) {
	w.t.Helper()
	hash := sha256.Sum256([]byte(secretOf(i)))
	w.post(find.JoinPath, w.join, find.Join{HostID: hostID(i), SecretHash: hex.EncodeToString(hash[:]), Group: group, Hostname: hostname})
}

// said has a host report.
func (w *world) said(i int, group, hostname, runs string, edit func(*find.Heartbeat)) {
	w.t.Helper()
	w.last[i]++
	b := find.Heartbeat{HostID: hostID(i), Sequence: w.last[i], BootID: fmt.Sprint("boot of ", i), Hostname: hostname, Group: group, Version: runs}
	if edit != nil {
		edit(&b)
	}
	w.post(find.HeartbeatPath, secretOf(i), b)
}

func (w *world) post(path, bearer string, body any) {
	w.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, path, bytes.NewReader(data))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+bearer)
	rec := httptest.NewRecorder()
	do := w.reports.Heartbeat
	if path == find.JoinPath {
		do = w.reports.Join
	}
	if do(rec, req); rec.Code != http.StatusOK {
		w.t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
	}
}

func failedWith(target, text string) func(*find.Heartbeat) {
	return func(b *find.Heartbeat) {
		b.Outcome = &find.Outcome{Target: target, State: "rolled_back", Error: text, Time: time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)}
	}
}

// started is a world in which group dev has started, of four hosts, and prod waits, of two.
func started(t *testing.T, groups string) *world {
	t.Helper()
	w := newWorld(t)
	for i := range 6 {
		w.joined(i, groupOf(i), fmt.Sprint("web-", i))
	}
	for range 6 {
		w.everybody("17.2.0")
		w.pass(10 * time.Minute)
	}
	w.everybody("17.2.0") // 12:00, the hour of dev
	w.apply(fmt.Sprintf(configText, groups), version)
	w.tick()
	w.tick()
	w.pass(time.Minute)
	return w
}

// rolling is one in which one of dev's hosts is on the version, and one failed.
func rolling(t *testing.T) *world {
	t.Helper()
	w := started(t, devProd)
	w.said(0, "dev", "web-0", "17.2.1", nil)
	w.said(1, "dev", "web-1", "17.2.0", failedWith("17.2.1", "the agent did not become healthy: exit status 7"))
	w.tick()
	return w
}

// halted is one in which the canary of dev failed.
func halted(t *testing.T) *world {
	t.Helper()
	w := started(t, strings.Replace(devProd, `"name":"dev"`, `"name":"dev","canary_count":1`, 1))
	canaries := w.stored.Resources().Rollout.Status.Groups[0].Canaries
	for i := range 4 {
		if hostID(i) == canaries[0].HostID {
			w.said(i, "dev", fmt.Sprint("web-", i), "17.2.0", failedWith("17.2.1", "it broke"))
		}
	}
	w.tick()
	return w
}

func groupOf(i int) string { return []string{"dev", "prod"}[min(i/4, 1)] }

func (w *world) everybody(runs string) {
	for i := range 6 {
		w.said(i, groupOf(i), fmt.Sprint("web-", i), runs, nil)
	}
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
	if resp := b.signIn(w.tokens[role]); resp.StatusCode != http.StatusSeeOther {
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
