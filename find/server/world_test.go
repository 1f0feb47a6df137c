package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/answers"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
	"teleport-update/internal/sharedbuffer"
	"teleport-update/internal/version"
)

const (
	immediate = "kind: autoupdate_version\nmetadata: {name: autoupdate-version}\nspec: {agents: {target_version: 17.2.1, schedule: immediate}}"
	enabled   = "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: enabled}}"
	suspended = "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: suspended}}"
	disabled  = "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: disabled}}"
	unset     = "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {strategy: time-based}}"
	scheduled = "kind: autoupdate_version\nmetadata: {name: autoupdate-version}\nspec: {agents: {start_version: 17.2.0, target_version: 17.2.1}}"
)

var base = find.Answer{Version: "15.1.0", Edition: version.OSS, AutoUpdate: true, Jitter: time.Minute}

// storeWorld is a store and somebody else who writes to it.
type storeWorld struct {
	t       *testing.T
	path    string
	store   *store.SQLite
	other   *store.SQLite
	options answers.StoredOptions
	log     *sharedbuffer.Buffer
	elapsed func() time.Duration // of its servers, see FleetOptions
	fresh   bool                 // of its servers, see FleetOptions
}

func newStoreWorld(t *testing.T) *storeWorld {
	t.Helper()
	w := &storeWorld{t: t, path: filepath.Join(t.TempDir(), "store", "store.db"), log: new(sharedbuffer.Buffer)}
	for _, s := range []**store.SQLite{&w.store, &w.other} {
		opened, err := store.OpenSQLite(t.Context(), w.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { opened.Close() })
		*s = opened
	}
	w.options = answers.StoredOptions{Store: w.store, Base: base, Log: slog.New(slog.NewTextHandler(w.log, nil))}
	return w
}

func (w *storeWorld) open() *answers.Stored {
	w.t.Helper()
	s, err := answers.NewStored(w.t.Context(), w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// write puts a resource into the store as another server would.
func (w *storeWorld) write(text string) {
	w.t.Helper()
	r := parseAll(w.t, text)[0]
	data, err := rollout.JSON(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(r.GetKind(), string(data))
}

func (w *storeWorld) put(key, value string) {
	w.t.Helper()
	item, err := w.other.Get(w.t.Context(), key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Fatal(err)
	}
	if _, err := w.other.Put(w.t.Context(), key, []byte(value), item.Revision); err != nil {
		w.t.Fatal(err)
	}
}

func parseAll(t *testing.T, text string) []rollout.Resource {
	t.Helper()
	list, err := rollout.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func enabledGroups(groups string) string {
	return strings.Replace(enabled, "mode: enabled", "mode: enabled, schedules: {regular: ["+groups+"]}", 1)
}

// clock is a time that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

// newClock begins on a Monday, an hour before noon.
func newClock() *clock { return &clock{now: time.Date(2025, 6, 2, 11, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// control is a server without a network: what answers, and what steps.
type control struct {
	t      *testing.T
	clock  *clock
	fleet  *inventory.Fleet
	stored *answers.Stored
	engine *driver.Engine
	driven driver.Options
}

// control opens a server on the world's store.
func (w *storeWorld) control(c *clock, s store.Store) *control {
	w.t.Helper()
	options := w.options
	options.Store, options.Clock = s, c.Now
	stored, err := answers.NewStored(w.t.Context(), options)
	if err != nil {
		w.t.Fatal(err)
	}
	s = stored.Store()
	fleet := inventory.NewFleet(c.Now().Add(-rollout.PresentFor), options.Base.Jitter)
	driven := driver.Options{Store: s, Clock: c.Now, Plans: stored.Plans(), Inventory: fleet, Answers: stored, Log: options.Log}
	return &control{t: w.t, clock: c, fleet: fleet, stored: stored, engine: driver.NewEngine(driven), driven: driven}
}

// counting has the engine count by something else from now on.
func (c *control) counting(f inventoryFunc) {
	options := c.driven
	options.Inventory = f
	c.engine = driver.NewEngine(options)
}

type inventoryFunc func(*rollout.Rollout, map[string]*rollout.Index, time.Time, func(rollout.Counts))

func (f inventoryFunc) Counting(r *rollout.Rollout, plans map[string]*rollout.Index, now time.Time, do func(rollout.Counts)) {
	f(r, plans, now, do)
}

func (f inventoryFunc) CompleteAt() time.Time { return time.Time{} }

func hostUUID(i int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", i) }

// report has a host ask and report, after an edit of the report.
func (c *control) report(i int, group string, v rollout.Semver, edit func(*rollout.Heartbeat)) find.Answer {
	c.t.Helper()
	a := c.stored.AnswerTo(rollout.Query{Group: group, Host: hostUUID(i)})
	b := rollout.Heartbeat{HostID: hostUUID(i), Hostname: fmt.Sprint("web-", i), Group: group, Version: v}
	if a.AutoUpdate {
		b.Told = rollout.Semver(a.Version)
	}
	if edit != nil {
		edit(&b)
	}
	if err := b.Check(); err != nil {
		c.t.Fatal(err)
	}
	c.fleet.Take(b, c.clock.Now())
	return a
}

func (c *control) tick() bool {
	c.t.Helper()
	changed, err := c.engine.Tick(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return changed
}

func (c *control) rollout() *rollout.Rollout {
	c.t.Helper()
	r, err := c.stored.Get(c.t.Context(), rollout.KindRollout, "")
	if err != nil {
		c.t.Fatal(err)
	}
	return r.(*rollout.Rollout)
}

func (c *control) states() string {
	var list []string
	for _, g := range c.rollout().Status.Groups {
		state := string(g.State)
		if g.Halted != nil {
			state += "!"
		}
		for _, condition := range g.Conditions {
			state += "?" + string(condition.Type)
		}
		list = append(list, state)
	}
	return strings.Join(list, " ")
}

// reportWorld is a server that takes reports, without a network.
type reportWorld struct {
	*control
	w       *storeWorld
	handler http.Handler
	secrets map[int]string
	last    map[int]uint32
}

// reporting starts one on the world's store, as after a restart.
func (w *storeWorld) reporting(c *clock, s store.Store) *reportWorld {
	w.t.Helper()
	r := &reportWorld{control: w.control(c, s), w: w, secrets: make(map[int]string), last: make(map[int]uint32)}
	f, err := inventory.OpenFleet(w.t.Context(), inventory.FleetOptions{Store: r.stored.Store(), Clock: c.Now, Elapsed: w.elapsed, Named: r.stored.Named,
		Log: w.options.Log, Fresh: w.fresh})
	if err != nil {
		w.t.Fatal(err)
	}
	r.fleet = f
	r.driven.Inventory = f
	r.engine = driver.NewEngine(r.driven)
	r.handler = New(Options{Answers: r.stored, Fleet: f, Log: w.options.Log})
	return r
}

// again is the same server after a restart, or a kill.
func (r *reportWorld) again(s store.Store) *reportWorld {
	next := r.w.reporting(r.clock, s)
	next.secrets, next.last = r.secrets, r.last
	return next
}

// reads passes time in which the server reads its store.
func (r *reportWorld) reads(d time.Duration) {
	r.t.Helper()
	for ; d > 0; d -= rollout.ReportLife {
		r.clock.pass(min(d, rollout.ReportLife))
		if err := r.fleet.Sync(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// countsOf returns what the engine counts.
func countsOf(f *inventory.Fleet, r *rollout.Rollout, now time.Time) (n rollout.Counts) {
	f.Counting(r, nil, now, func(counted rollout.Counts) { n = counted.Detached() })
	return n
}

func (r *reportWorld) token(name string, groups ...string) string {
	r.t.Helper()
	made, err := r.fleet.AddToken(r.t.Context(), adminapi.TokenRequest{Name: name, Groups: groups}, store.Audit{Who: "uid 0", Time: r.clock.Now()}, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return made.Token
}

func (r *reportWorld) post(path, auth, body string) (int, find.HeartbeatError) {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	rec := httptest.NewRecorder()
	r.handler.ServeHTTP(rec, req)
	var said find.HeartbeatError
	if err := json.Unmarshal(rec.Body.Bytes(), &said); err != nil {
		r.t.Fatalf("%d %q: %v", rec.Code, rec.Body, err)
	}
	return rec.Code, said
}

func secretOf(i int) string { return fmt.Sprintf("%064x", i+1) }

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func (r *reportWorld) joins(i int, token, secret, group string) (int, find.HeartbeatError) {
	r.t.Helper()
	body, err := json.Marshal(find.Join{HostID: hostUUID(i), SecretHash: hashOf(secret), Group: group, Hostname: fmt.Sprint("web-", i)})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.post(find.JoinPath, "Bearer "+token, string(body))
}

// joined has hosts join, each with a secret of its own.
func (r *reportWorld) joined(token, group string, hosts ...int) {
	r.t.Helper()
	for _, i := range hosts {
		r.secrets[i] = secretOf(i)
		if status, said := r.joins(i, token, r.secrets[i], group); status != http.StatusOK {
			r.t.Fatalf("join: %d %+v", status, said)
		}
	}
}

// says has a host report over HTTP.
func (r *reportWorld) says(i int, group, v string, edit func(*find.Heartbeat)) (int, find.HeartbeatError) {
	r.t.Helper()
	r.last[i]++
	b := find.Heartbeat{HostID: hostUUID(i), Sequence: r.last[i], BootID: "boot of " + fmt.Sprint(i), Hostname: fmt.Sprint("web-", i), Group: group, Version: v}
	if edit != nil {
		edit(&b)
	}
	body, err := json.Marshal(b)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.post(find.HeartbeatPath, "Bearer "+r.secrets[i], string(body))
}

func (r *reportWorld) said(i int, group, v string, edit func(*find.Heartbeat)) {
	r.t.Helper()
	if status, said := r.says(i, group, v, edit); status != http.StatusOK {
		r.t.Fatalf("report of %d: %d %+v", i, status, said)
	}
}

// everything is all that the server knows, in memory and in the store.
func (r *reportWorld) everything() string {
	r.t.Helper()
	var text strings.Builder
	var hosts []string
	r.fleet.Each(func(e *fleet.Entry) { hosts = append(hosts, fmt.Sprintf("%+v\n", *e)) })
	slices.Sort(hosts)
	text.WriteString(strings.Join(hosts, ""))
	items, at, err := r.w.other.List(context.Background(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	fmt.Fprintln(&text, at)
	for _, item := range items {
		fmt.Fprintln(&text, item.Key, item.Revision)
	}
	return text.String()
}

func failedAt(target, text string) func(*find.Heartbeat) {
	return func(b *find.Heartbeat) {
		b.Outcome = &find.Outcome{Target: target, State: "rolled_back", Error: text, Time: time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)}
	}
}
