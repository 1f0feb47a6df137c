package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/driver"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// reportWorld is a server that takes reports, without a network.
type reportWorld struct {
	*control
	w       *storeWorld
	handler http.Handler
	secrets map[int]string
	last    map[int]uint32
}

// countsOf returns what the engine counts.
func countsOf(f *inventory.Fleet, r *rollout.Rollout, now time.Time) (n rollout.Counts) {
	f.Counting(r, nil, now, func(counted rollout.Counts) { n = counted.Detached() })
	return n
}

// reporting starts one on the world's store, as after a restart.
func (w *storeWorld) reporting(c *clock, s store.Store) *reportWorld {
	w.t.Helper()
	r := &reportWorld{control: w.control(c, s), w: w, secrets: make(map[int]string), last: make(map[int]uint32)}
	f, err := inventory.OpenFleet(w.t.Context(), inventory.FleetOptions{Store: r.stored.Store(), Clock: c.Now, Elapsed: w.elapsed, Named: r.stored.Named,
		Log: w.options.Log})
	if err != nil {
		w.t.Fatal(err)
	}
	r.fleet = f
	r.driven.Inventory = f
	r.engine = driver.NewEngine(r.driven)
	r.handler = New(Options{Answers: r.stored, Fleet: f, Log: w.options.Log})
	return r
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

// again is the same server after a restart, or a kill.
func (r *reportWorld) again(s store.Store) *reportWorld {
	next := r.w.reporting(r.clock, s)
	next.secrets, next.last = r.secrets, r.last
	return next
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

// A host joins once. With the same secret it may ask again, as the answer may have
// been lost; with another one it has to be let go first.
func TestASecondJoin(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	r.joined(token, "dev", 0)
	r.said(0, "dev", "17.2.0", failedAt("17.2.1", "it broke"))
	if status, said := r.joins(0, token, r.secrets[0], "dev"); status != http.StatusOK {
		t.Errorf("the same join again: %d %+v", status, said)
	}
	if status, _ := r.joins(0, token, "another secret of the host", "dev"); status != http.StatusConflict {
		t.Errorf("a second join: %d", status)
	}
	if _, err := r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(0)), store.Audit{Who: "uid 0", Why: "disk exchanged"}, false); err != nil {
		t.Fatal(err)
	}
	if status, _ := r.says(0, "dev", "17.2.0", nil); status != http.StatusUnauthorized {
		t.Errorf("a report after it was revoked: %d", status)
	}
	r.secrets[0] = "another secret of the host"
	if status, said := r.joins(0, token, r.secrets[0], "dev"); status != http.StatusOK {
		t.Fatalf("a join after it was revoked: %d %+v", status, said)
	}
	r.last[0] = 0
	r.said(0, "dev", "17.2.0", nil)
	e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(0)))
	if e.Failed.Error != "it broke" {
		t.Errorf("the verdict is gone with the secret: %+v", e)
	}
	records, err := w.store.History(t.Context(), 10)
	if err != nil || len(records) != 2 || records[0].What != "token revoke-host "+hostUUID(0) || records[0].Why != "disk exchanged" || records[1].What != "token add all" {
		t.Errorf("%+v, %v", records, err)
	}
}

// Two hosts with one secret are told by their boots, which take turns; a reboot is
// none.
func TestAClonedSecret(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0)
	id := rollout.ParseHostID(hostUUID(0))
	boot := func(b, v string) *fleet.Entry {
		r.clock.pass(5 * time.Minute)
		r.said(0, "dev", v, func(h *find.Heartbeat) { h.BootID = b })
		e, _ := r.fleet.Entry(id)
		return &e
	}
	for _, b := range []string{"a", "a", "b", "c", "d", "d", "e"} {
		if e := boot(b, "17.2.0"); e.Cloned {
			t.Fatalf("after the boot %s it counts as cloned", b)
		}
	}
	if e := boot("d", "17.2.1"); !e.Cloned || e.Version != "17.2.0" || e.Omitted(r.clock.Now()) == "" {
		t.Errorf("a boot that comes back: %+v", e)
	}
	if e := boot("e", "17.2.1"); !e.Cloned || e.Version != "17.2.0" {
		t.Errorf("and its clone: %+v", e)
	}
	r = r.again(w.other)
	for range 5 {
		if e := boot("e", "17.2.1"); !e.Cloned {
			t.Fatal("the mark goes while the other one may be there")
		}
	}
	if e := boot("e", "17.2.1"); e.Cloned || e.Version != "17.2.1" {
		t.Errorf("the other one is gone: %+v", e)
	}
	for _, b := range []string{"x", "y", "z", "x"} { // three of them
		boot(b, "17.2.1")
	}
	if e, _ := r.fleet.Entry(id); !e.Cloned {
		t.Error("three hosts with one secret are not seen")
	}
}
