// Package pagetest is a find server for tests of its page, with hosts that report when a test says so and a clock that the
// test sets. It does not know the page: a test puts one before the API.
package pagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
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
	// ConfigText is a configuration with groups in the place of %s.
	ConfigText = `{"kind":"autoupdate_config","metadata":{"name":"autoupdate-config"},"spec":{"agents":{"mode":"enabled",` +
		`"schedules":{"regular":[%s]}}}}`
	// DevProd are two groups, at 12 and at 14 o'clock.
	DevProd = `{"name":"dev","days":["*"],"start_hour":12},{"name":"prod","days":["*"],"start_hour":14}`
	// Version is a rollout from 17.2.0 to 17.2.1.
	Version = `{"kind":"autoupdate_version","metadata":{"name":"autoupdate-version"},` +
		`"spec":{"agents":{"start_version":"17.2.0","target_version":"17.2.1"}}}`
)

// World is a find server.
type World struct {
	t       *testing.T
	mu      sync.Mutex
	now     time.Time
	Store   *store.SQLite
	Stored  *answers.Stored
	Fleet   *inventory.Fleet
	engine  *driver.Engine
	Access  *admin.Access
	reports *inventory.Reports
	// API is the admin API, without a check of access tokens.
	API http.Handler
	// Tokens are access tokens, one for each role, by the role's name.
	Tokens map[adminapi.Role]string
	// Join is a join token.
	Join string
	last map[int]uint32
	Log  *Logged
}

// Logged is a log that is safe for concurrent use.
type Logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Enabled implements slog.Handler, as the next ones do.
func (l *Logged) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs leaves them out.
func (l *Logged) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup leaves it out.
func (l *Logged) WithGroup(string) slog.Handler { return l }

// Handle keeps a line.
func (l *Logged) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&l.text, " %s=%v", a.Key, a.Value)
		return true
	})
	l.text.WriteByte('\n')
	return nil
}

// String returns all that was logged.
func (l *Logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Clock is the clock of the server.
func (w *World) Clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Pass moves the clock.
func (w *World) Pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// New returns a server without hosts, at 11 o'clock.
func New(t *testing.T) *World {
	t.Helper()
	w := &World{Log: new(Logged), t: t, now: time.Date(2025, 6, 2, 11, 0, 0, 0, time.UTC), Tokens: make(map[adminapi.Role]string),
		last: make(map[int]uint32)}
	log := slog.New(w.Log)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.Store, err = store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "store", "store.db"))
	must(err)
	t.Cleanup(func() { w.Store.Close() })
	w.Stored, err = answers.NewStored(t.Context(), answers.StoredOptions{Store: w.Store, Base: find.Answer{AutoUpdate: true, Edition: "oss"},
		Clock: w.Clock, Log: log})
	must(err)
	w.Fleet, err = inventory.OpenFleet(t.Context(), inventory.FleetOptions{Store: w.Store, Clock: w.Clock, Named: w.Stored.Named, Log: log})
	must(err)
	w.engine = driver.NewEngine(driver.Options{
		Store: w.Store, Clock: w.Clock, Plans: w.Stored.Plans(), Inventory: w.Fleet, Answers: w.Stored, Log: log,
	})
	w.Access = admin.NewAccess(w.Store, w.Clock)
	w.reports = inventory.NewReports(w.Fleet, log)
	w.API = admin.New(admin.Options{Stored: w.Stored, Store: w.Store, Engine: w.engine, Fleet: w.Fleet, Access: w.Access, Log: log})
	for _, role := range adminapi.Roles {
		w.Tokens[role] = w.Token(string(role), role)
	}
	made, err := w.Fleet.AddToken(t.Context(), adminapi.TokenRequest{Name: "all"}, store.Audit{Who: "uid 0", Time: w.now}, false)
	must(err)
	w.Join = made.Token
	return w
}

// Token makes an access token.
func (w *World) Token(name string, role adminapi.Role) string {
	w.t.Helper()
	made, err := w.Access.Add(w.t.Context(), adminapi.AccessRequest{Name: name, Role: role}, store.Audit{Who: "uid 0", Time: w.Clock()}, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return made.Token
}

// Apply writes resources, and ticks the engine.
func (w *World) Apply(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		list, err := rollout.Parse([]byte(text))
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.Stored.Apply(w.t.Context(), list, answers.ApplyOptions{Who: "uid 0"}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.Tick()
}

// Tick has the server read its store, and step the rollout.
func (w *World) Tick() {
	w.t.Helper()
	if err := w.Fleet.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.engine.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Stored.Refresh(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// HostID returns the id of a host by its number.
func HostID(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i+1) }

// SecretOf returns the secret of a host by its number.
func SecretOf(i int) string { return fmt.Sprintf("%064x", i+1) }

// Joined has a host join.
func (w *World) Joined(i int, group, hostname string) {
	w.t.Helper()
	hash := sha256.Sum256([]byte(SecretOf(i)))
	w.post(find.JoinPath, w.Join, find.Join{HostID: HostID(i), SecretHash: hex.EncodeToString(hash[:]), Group: group, Hostname: hostname})
}

// Said has a host report.
func (w *World) Said(i int, group, hostname, runs string, edit func(*find.Heartbeat)) {
	w.t.Helper()
	w.last[i]++
	b := find.Heartbeat{HostID: HostID(i), Sequence: w.last[i], BootID: fmt.Sprint("boot of ", i), Hostname: hostname, Group: group,
		Version: runs}
	if edit != nil {
		edit(&b)
	}
	w.post(find.HeartbeatPath, SecretOf(i), b)
}

func (w *World) post(path, bearer string, body any) {
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

// FailedWith returns a report of an update that was rolled back.
func FailedWith(target, text string) func(*find.Heartbeat) {
	return func(b *find.Heartbeat) {
		b.Outcome = &find.Outcome{Target: target, State: "rolled_back", Error: text, Time: time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)}
	}
}

// reads passes time in which the server reads its store.
func (w *World) reads(d time.Duration) {
	for ; d > 0; d -= rollout.ReportLife {
		w.Pass(min(d, rollout.ReportLife))
		if err := w.Fleet.Sync(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Started returns a world in which group dev, with four hosts, has started, and prod, with two, waits.
func Started(t *testing.T, groups string) *World {
	t.Helper()
	w := New(t)
	for i := range 6 {
		w.Joined(i, GroupOf(i), fmt.Sprint("web-", i))
	}
	for range 6 {
		w.Everybody("17.2.0")
		w.reads(10 * time.Minute)
	}
	w.Everybody("17.2.0") // 12:00, the hour of dev
	w.Apply(fmt.Sprintf(ConfigText, groups), Version)
	w.Tick()
	w.Tick()
	w.Pass(time.Minute)
	return w
}

// Rolling returns a world in which one of dev's hosts is on the version, and one failed.
func Rolling(t *testing.T) *World {
	t.Helper()
	w := Started(t, strings.Replace(DevProd, `"name":"dev"`, `"name":"dev","max_failed_before_halt":"25%","max_timeout_before_halt":"0%"`, 1))
	w.Said(0, "dev", "web-0", "17.2.1", nil)
	w.Said(1, "dev", "web-1", "17.2.0", FailedWith("17.2.1", "the agent did not become healthy: exit status 7"))
	w.Tick()
	return w
}

// Halted returns a world in which the canary of dev failed.
func Halted(t *testing.T) *World {
	t.Helper()
	w := Started(t, strings.Replace(DevProd, `"name":"dev"`, `"name":"dev","canary_count":1`, 1))
	canaries := w.Stored.Resources().Rollout.Status.Groups[0].Canaries
	for i := range 4 {
		if HostID(i) == canaries[0].HostID {
			w.Said(i, "dev", fmt.Sprint("web-", i), "17.2.0", FailedWith("17.2.1", "it broke"))
		}
	}
	w.Tick()
	return w
}

// FiftyGroups returns a world of fifty groups with three hosts each, in which the canary of the seventh group failed. The first
// ten are done but for the seventh, twenty update, and twenty wait for their hour.
func FiftyGroups(t *testing.T) *World {
	t.Helper()
	w := New(t)
	name := func(g int) string { return fmt.Sprintf("edge-%02d", g) }
	host := func(i int) string { return fmt.Sprintf("%s-host-%d", name(i/3), i%3) }
	var groups []string
	for g := range 50 {
		group := fmt.Sprintf(`{"name":%q,"days":["*"],"start_hour":%d`, name(g), map[bool]int{true: 12, false: 14}[g < 30])
		switch g {
		case 6:
			group += `,"canary_count":1`
		case 49: // so that the others do not wait for one another
			group += fmt.Sprintf(`,"requires":[%q]`, name(48))
		}
		groups = append(groups, group+"}")
	}
	say := func() {
		for i := range 150 {
			w.Said(i, name(i/3), host(i), "17.2.0", nil)
		}
	}
	for i := range 150 {
		w.Joined(i, name(i/3), host(i))
	}
	for range 6 {
		say()
		w.reads(10 * time.Minute)
	}
	say()
	w.Apply(fmt.Sprintf(ConfigText, strings.Join(groups, ",")), Version)
	w.Tick()
	w.Tick()
	w.Pass(time.Minute)
	canary := w.Stored.Resources().Rollout.Status.Groups[6].Canaries[0].HostID
	for i := range 90 {
		switch {
		case HostID(i) == canary:
			w.Said(i, name(i/3), host(i), "17.2.0", FailedWith("17.2.1", "the agent did not become healthy: exit status 7"))
		case i/3 != 6 && (i < 30 || i%3 == 0):
			w.Said(i, name(i/3), host(i), "17.2.1", nil)
		}
	}
	w.Tick()
	return w
}

// GroupOf returns the group of a host by its number.
func GroupOf(i int) string { return []string{"dev", "prod"}[min(i/4, 1)] }

// Everybody has all hosts of Started report.
func (w *World) Everybody(runs string) {
	for i := range 6 {
		w.Said(i, GroupOf(i), fmt.Sprint("web-", i), runs, nil)
	}
}
