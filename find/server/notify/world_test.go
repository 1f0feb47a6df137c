package notify

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
	"teleport-update/internal/sharedbuffer"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// clocked is a store whose clock the test sets, and that can go away.
type clocked struct {
	store.Store
	mu   sync.Mutex
	now  time.Time
	away error
	fail func(key string) error // of a change
}

func (c *clocked) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clocked) gone() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away
}

func (c *clocked) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *clocked) leave(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = err
}

func (c *clocked) List(ctx context.Context, prefix string) ([]store.Item, store.Revision, error) {
	if err := c.gone(); err != nil {
		return nil, store.None, err
	}
	return c.Store.List(ctx, prefix)
}

func (c *clocked) Commit(ctx context.Context, change store.Change) ([]store.Revision, error) {
	c.mu.Lock()
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		if err := fail(change.Writes[0].Key); err != nil {
			return nil, err
		}
	}
	if err := c.gone(); err != nil {
		return nil, err
	}
	return c.Store.Commit(ctx, change)
}

// world is a store, a receiver, and what the receiver got.
type world struct {
	t      *testing.T
	store  *clocked
	dir    string
	log    sharedbuffer.Buffer
	server *httptest.Server

	mu      sync.Mutex
	got     []received
	answer  func(w http.ResponseWriter, r *http.Request, n int) // nil: 200
	results map[Result]int
	blocked []string
}

// received is one request.
type received struct {
	id, path string
	at       string
	body     body
	raw      []byte
	header   http.Header
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), results: map[Result]int{}}
	opened, err := store.OpenSQLite(t.Context(), filepath.Join(w.dir, "store", "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	w.store = &clocked{Store: opened, now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}
	w.server = httptest.NewServer(http.HandlerFunc(w.take))
	t.Cleanup(w.server.Close)
	w.write("secret", secret+"\n")
	return w
}

func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) take(rw http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	one := received{id: r.Header.Get("webhook-id"), path: r.URL.Path, at: r.Header.Get("webhook-timestamp"), raw: raw, header: r.Header}
	if err := json.Unmarshal(raw, &one.body); err != nil {
		w.t.Errorf("%s: %v", raw, err)
	}
	w.mu.Lock()
	w.got = append(w.got, one)
	n, answer := len(w.got), w.answer
	w.mu.Unlock()
	if answer != nil {
		answer(rw, r, n)
	}
}

func (w *world) answers(f func(w http.ResponseWriter, r *http.Request, n int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

func (w *world) received() []received {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

// server returns a Notifier of a server.
func (w *world) notifier(name string) *Notifier {
	return New(Options{
		Store: w.store, Server: name, Version: "1.2.3", Clock: w.store.time,
		Blocked: func() []string { w.mu.Lock(); defer w.mu.Unlock(); return w.blocked },
		Delivered: func(r Result) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.results[r]++
		},
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
}

// hook writes a webhook.
func (w *world) hook(name, path string, kinds ...rollout.NoticeKind) {
	w.t.Helper()
	w.put(w.resource(name, path, kinds...))
}

func (w *world) resource(name, path string, kinds ...rollout.NoticeKind) *rollout.Notify {
	return &rollout.Notify{
		Kind: rollout.KindNotify, Metadata: rollout.Metadata{Name: name},
		Spec: rollout.NotifySpec{URL: w.server.URL + path, SecretFile: filepath.Join(w.dir, "secret"), Kinds: kinds},
	}
}

func (w *world) put(h *rollout.Notify) {
	w.t.Helper()
	if err := h.Check(); err != nil {
		w.t.Fatal(err)
	}
	value, err := rollout.JSON(h)
	if err != nil {
		w.t.Fatal(err)
	}
	item, err := w.store.Get(w.t.Context(), rollout.Key(h))
	if err != nil {
		item.Revision = store.None
	}
	if _, err := w.store.Store.Put(w.t.Context(), rollout.Key(h), value, item.Revision); err != nil {
		w.t.Fatal(err)
	}
}

// happens writes an event, as the engine of the server does; nil is a server that is killed right after it.
func (w *world) happens(server *Notifier, kind rollout.NoticeKind, group string) {
	w.t.Helper()
	n := rollout.Notice{
		ID: string(kind) + "-" + group, Kind: kind, Time: w.store.time(), Target: "17.1.0", Start: "17.0.0", State: rollout.Active, By: "engine",
		Groups: []rollout.NoticeGroup{{Name: group, State: rollout.Active, Since: w.store.time(), Reason: "hosts_failed", Message: "2 of 10 hosts failed"}},
	}
	value, err := json.Marshal(n)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.Store.Put(w.t.Context(), rollout.NoticePrefix+n.ID, value, store.None); err != nil {
		w.t.Fatal(err)
	}
	if server != nil {
		server.Post([]rollout.Notice{n})
	}
}

// look has servers look, and waits for what they post.
func (w *world) look(list ...*Notifier) {
	w.t.Helper()
	for _, n := range list {
		if err := n.look(w.t.Context()); err != nil && w.store.gone() == nil {
			w.t.Fatal(err)
		}
	}
	for _, n := range list {
		n.working.Wait()
	}
}

// ids are those of the requests, in their order.
func ids(list []received) (all []string) {
	for _, r := range list {
		all = append(all, r.id)
	}
	return all
}
