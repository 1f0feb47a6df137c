package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// copyStore copies the file of a store that nobody writes to, and replaceStore puts the copy in its place, as
// somebody does who restores a backup by hand.
func copyStore(t *testing.T, path string) (copied string) {
	t.Helper()
	copied = path + ".copy"
	for _, suffix := range []string{"", "-wal"} {
		from, err := os.Open(path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		to, err := os.OpenFile(copied+suffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(to, from); err != nil {
			t.Fatal(err)
		}
		from.Close()
		to.Close()
	}
	return copied
}

func replaceStore(t *testing.T, path, by string) {
	t.Helper()
	// What is left of the one before must not be taken for the log of the copy.
	os.Remove(path + "-shm")
	os.Remove(path + "-wal")
	if _, err := os.Stat(by + "-wal"); err == nil {
		if err := os.Rename(by+"-wal", path+"-wal"); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(by, path); err != nil {
		t.Fatal(err)
	}
}

func verdict(n int) func(*find.Heartbeat) {
	return func(b *find.Heartbeat) {
		b.Outcome = &find.Outcome{Target: "17.2.1", State: "failed", Error: fmt.Sprint("verdict ", n), Time: noon.Add(time.Duration(n) * time.Second)}
	}
}

// One host that the store has lost, in whatever way, keeps no host from reporting, itself included, and no verdict
// is lost.
func TestAHostThatTheStoreLostPoisonsNobody(t *testing.T) {
	remove := func(t *testing.T, w *storeWorld, i int) {
		t.Helper()
		key := "agents/host/" + hostUUID(i)
		item, err := w.other.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.other.Delete(t.Context(), key, item.Revision); err != nil {
			t.Fatal(err)
		}
	}
	for name, lose := range map[string]func(t *testing.T, w *storeWorld, r *reportWorld){
		"forgotten by another server": func(t *testing.T, w *storeWorld, _ *reportWorld) { remove(t, w, 0) },
		"all forgotten": func(t *testing.T, w *storeWorld, _ *reportWorld) {
			for i := range 4 {
				remove(t, w, i)
			}
		},
		"forgotten, and the server has read that": func(t *testing.T, w *storeWorld, r *reportWorld) {
			remove(t, w, 0)
			if err := r.fleet.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"written by another server": func(t *testing.T, w *storeWorld, _ *reportWorld) {
			w.put("agents/host/"+hostUUID(0), `{"secret_sha256_half":"`+hashOf(secretOf(0))[:32]+`","token":"all","group":"dev","version":"17.0.0","first_seen":1}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			r := w.reporting(newClock(), w.store)
			r.joined(r.token("all"), "dev", 0, 1, 2, 3)
			for i := range 4 {
				r.said(i, "dev", "17.2.0", nil)
			}
			lose(t, w, r)
			for _, i := range []int{0, 1, 2, 3, 0} {
				r.said(i, "dev", "17.2.0", verdict(i))
			}
			if err := r.fleet.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, now := range []*reportWorld{r, r.again(w.other)} {
				for i := range 4 {
					if e, _ := now.fleet.Entry(rollout.ParseHostID(hostUUID(i))); e.Failed.Error != fmt.Sprint("verdict ", i) {
						t.Errorf("host %d is known as %+v", i, e)
					}
				}
			}
		})
	}
}

// A record that nobody can read keeps its own host out, and no other; it is over once somebody puts it right.
func TestARecordThatCannotBeReadConcernsItsHostAlone(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	r.joined(r.token("all"), "dev", 0, 1)
	r.reads(rollout.PresentFor)
	key := "agents/host/" + hostUUID(0)
	good, err := w.other.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	w.put(key, "this is no host")
	if status, _ := r.says(0, "dev", "17.2.0", verdict(0)); status != http.StatusServiceUnavailable {
		t.Errorf("its own report: %d", status)
	}
	r.said(1, "dev", "17.2.0", verdict(1))
	r.said(1, "dev", "17.2.0", verdict(2))
	if err := r.fleet.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countsOf(r.fleet, new(rollout.Rollout), r.clock.Now()); n.Complete {
		t.Error("groups go on while a host cannot be counted")
	}
	w.put(key, string(good.Value))
	if err := r.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countsOf(r.fleet, new(rollout.Rollout), r.clock.Now()); !n.Complete {
		t.Error("no group goes on after it was put right")
	}
	r.said(0, "dev", "17.2.0", verdict(3))
}

// An older copy is put in the place of the store while servers run: they go on, each host is heard, and what hosts have
// said since the copy is in it again. Another store is taken as it is.
func TestTheStoreIsReplaced(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	r.joined(token, "dev", 0, 1)
	r.said(0, "dev", "17.2.0", nil)
	r.said(1, "dev", "17.2.0", verdict(1))
	copied := copyStore(t, w.path)
	r.joined(token, "dev", 2) // the copy has not heard of it
	r.said(0, "dev", "17.2.0", verdict(2))
	r.said(2, "dev", "17.2.0", verdict(3))
	if _, err := r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(1)), store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	r.secrets[1] = "another secret of the host"
	if status, said := r.joins(1, token, r.secrets[1], "dev"); status != http.StatusOK {
		t.Fatalf("%d %s", status, said.Error)
	}
	r.last[1] = 0
	r.said(1, "dev", "17.2.0", nil)
	replaceStore(t, w.path, copied)
	for i := range 3 {
		r.said(i, "dev", "17.2.1", nil)
	}
	if err := r.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.joined(token, "dev", 3)
	for _, now := range []*reportWorld{r, r.again(w.other)} {
		for i, want := range map[int]string{0: "verdict 2", 1: "verdict 1", 2: "verdict 3"} {
			if e, ok := now.fleet.Entry(rollout.ParseHostID(hostUUID(i))); !ok || e.Failed.Error != want || e.Version != "17.2.1" {
				t.Errorf("host %d is known as %+v; want %s", i, e, want)
			}
			now.said(i, "dev", "17.2.1", nil)
		}
	}
	if log := w.log.String(); !strings.Contains(log, "is not the one that was read before") {
		t.Errorf("nobody is told:\n%s", log)
	}

	empty, err := store.OpenSQLite(t.Context(), w.path+".folder/store.db")
	if err != nil {
		t.Fatal(err)
	}
	if err := empty.Close(); err != nil {
		t.Fatal(err)
	}
	replaceStore(t, w.path, w.path+".folder/store.db")
	if err := r.fleet.Sync(t.Context()); err != nil || r.fleet.Len() != 0 || len(r.fleet.Tokens()) != 0 {
		t.Errorf("%v, %d hosts and %+v of the store before are known in another one", err, r.fleet.Len(), r.fleet.Tokens())
	}
}
