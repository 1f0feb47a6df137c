package server

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/inventory"
	"teleport-update/find/store"
)

// A token's name is used again, for all combinations of groups: hosts that have joined by the one before stay in
// its groups, at every server and over a restart, and count for no other.
func TestATokenOfTheSameNameIsAnother(t *testing.T) {
	groups := [][]string{nil, {"staging"}, {"prod"}, {"staging", "prod"}}
	for _, first := range groups {
		for _, second := range groups {
			t.Run(fmt.Sprint(first, second), func(t *testing.T) {
				w := newStoreWorld(t)
				clock := newClock()
				a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
				b.secrets, b.last = a.secrets, a.last
				may := func(groups []string, group string) int {
					for _, g := range groups {
						if g == group {
							return http.StatusOK
						}
					}
					if groups == nil {
						return http.StatusOK
					}
					return http.StatusForbidden
				}
				in := func(groups []string) string { return append(groups, "staging")[0] }
				audit := store.Audit{Who: "uid 0"}
				for range 2 { // an earlier one, so that the name has had three tokens
					a.token("web", first...)
					if _, err := a.fleet.RevokeToken(t.Context(), "web", false, audit, false); err != nil {
						t.Fatal(err)
					}
				}
				a.joined(a.token("web", first...), in(first), 0)
				if _, err := a.fleet.RevokeToken(t.Context(), "web", false, audit, false); err != nil {
					t.Fatal(err)
				}
				a.joined(a.token("web", second...), in(second), 1)
				for _, r := range []*reportWorld{a, b, a.again(w.other)} {
					if err := r.fleet.Tick(t.Context()); err != nil {
						t.Fatal(err)
					}
					for _, group := range []string{"staging", "prod"} {
						for i, groups := range [][]string{first, second} {
							if status, said := r.says(i, group, "17.2.0", nil); status != may(groups, group) {
								t.Errorf("a host of the token for %v reports as %s: %d %s; want %d", groups, group, status, said.Error, may(groups, group))
							}
						}
					}
					if list := r.fleet.Tokens(); len(list) != 1 || list[0].Hosts != 1 || list[0].Name != "web" {
						t.Errorf("the tokens are %+v", list)
					}
					if e, _ := r.fleet.Entry(rollout.ParseHostID(hostUUID(0))); inventory.TokenName(&e) != "web" {
						t.Errorf("the host has joined by %q", inventory.TokenName(&e))
					}
				}
				if n, err := b.fleet.RevokeToken(t.Context(), "web", true, audit, false); n != 2 || err != nil || b.fleet.Len() != 0 {
					t.Errorf("%d hosts of the name were removed, %v, and %d are left", n, err, b.fleet.Len())
				}
			})
		}
	}
}

// Who reads the store, or a copy of it, has no token and no secret of a host.
func TestTheStoreHasNoTokenAndNoSecret(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	token := r.token("all")
	r.joined(token, "dev", 0, 1)
	r.said(0, "dev", "17.2.0", nil)
	access, err := admin.NewAccess(w.store, r.clock.Now).Add(t.Context(), adminapi.AccessRequest{Name: "ci", Role: "viewer"}, store.Audit{Who: "uid 0", Time: r.clock.Now()}, false)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(w.path + "*")
	if err != nil || len(files) < 2 { // the log beside it
		t.Fatal(files, err)
	}
	found := false
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(string(data), "web-0")
		for what, secret := range map[string]string{"a token": token, "the secret of a host": r.secrets[0], "the secret of another": r.secrets[1], "an access token": access.Token} {
			_, bare, _ := strings.Cut(secret, "find-")
			for _, text := range []string{secret, bare} {
				if len(text) > 20 && strings.Contains(string(data), text) {
					t.Errorf("%s is in %s", what, filepath.Base(file))
				}
			}
		}
	}
	if !found {
		t.Error("the store is not looked at: it has no host")
	}
}

// A token lets in as many hosts as it is for, and not too many at once. A join that is refused writes nothing.
func TestATokenHasLimits(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	made, err := r.fleet.AddToken(t.Context(), adminapi.TokenRequest{Name: "few", MaxHosts: 3}, store.Audit{Who: "uid 0"}, false)
	if err != nil || made.MaxHosts != 3 {
		t.Fatalf("%+v, %v", made, err)
	}
	r.joined(made.Token, "dev", 0, 1, 2)
	all := r.token("all")
	before := r.everything()
	for i, token := range []string{made.Token, made.Token, made.Token} {
		if status, said := r.joins(10+i, token, secretOf(10+i), "dev"); status != http.StatusForbidden || !strings.Contains(said.Error, "few is for 3 hosts") {
			t.Errorf("a host too many: %d %s", status, said.Error)
		}
	}
	if after := r.everything(); after != before {
		t.Errorf("joins that were refused have changed\n%s\nto\n%s", before, after)
	}
	if status, said := r.joins(0, made.Token, r.secrets[0], "dev"); status != http.StatusOK {
		t.Errorf("the join of a host that is in: %d %s", status, said.Error)
	}
	r.joined(all, "dev", 20)
	// Who is removed makes room.
	if _, err := r.fleet.RevokeHost(t.Context(), rollout.ParseHostID(hostUUID(1)), store.Audit{Who: "uid 0"}, false); err != nil {
		t.Fatal(err)
	}
	r.joined(made.Token, "dev", 10)
	// The next start finds nothing that it cannot count.
	r.clock.pass(rollout.PresentFor + time.Minute)
	next := r.again(w.other)
	next.reads(rollout.PresentFor + time.Minute)
	if err := next.fleet.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countsOf(next.fleet, new(rollout.Rollout), next.clock.Now()); !n.Complete {
		t.Errorf("after the next start no group goes on: %+v", n)
	}
	if got := next.fleet.Len(); got != 4 {
		t.Errorf("%d hosts are known after the next start; want 4", got)
	}
}

// One token lets in only so many hosts in a minute, and the others later.
func TestATokenLetsInManyHostsOneMinuteAfterTheOther(t *testing.T) {
	w := newStoreWorld(t)
	r := w.reporting(newClock(), w.store)
	all, other := r.token("all"), r.token("other")
	for i := range inventory.MaxJoins {
		r.joined(all, "dev", i)
	}
	before := r.everything()
	if status, _ := r.joins(5000, all, secretOf(5000), "dev"); status != http.StatusTooManyRequests {
		t.Errorf("a join too many in a minute: %d", status)
	}
	if r.everything() != before {
		t.Error("a join that was refused has changed something")
	}
	r.joined(other, "dev", 5001)
	r.clock.pass(time.Minute)
	r.joined(all, "dev", 5000)
}

// With its hosts a token is gone from every server: they report no more, are in no count, and may join again.
func TestRevokingATokenWithItsHosts(t *testing.T) {
	w := newStoreWorld(t)
	clock := newClock()
	a, b := w.reporting(clock, w.store), w.reporting(clock, w.other)
	b.secrets, b.last = a.secrets, a.last
	leaked, other := a.token("leaked"), a.token("other")
	a.joined(leaked, "dev", 0, 1, 2)
	a.joined(other, "dev", 3)
	for _, i := range []int{0, 1, 2, 3} {
		a.said(i, "dev", "17.2.0", nil)
	}
	revoke := func(hosts, dryRun bool) (int, error) {
		return a.fleet.RevokeToken(t.Context(), "leaked", hosts, store.Audit{Who: "uid 0", Why: "found in a log"}, dryRun)
	}
	if n, err := revoke(true, true); n != 3 || err != nil || a.fleet.Len() != 4 {
		t.Fatalf("a dry run: %d, %v, and %d hosts", n, err, a.fleet.Len())
	}
	if _, err := revoke(false, false); err != nil {
		t.Fatal(err)
	}
	a.said(0, "dev", "17.2.1", nil) // without its hosts they go on reporting
	if err := b.fleet.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n, err := revoke(true, false); n != 3 || err != nil {
		t.Fatalf("%d hosts were removed, %v", n, err)
	}
	// The other server, which has not heard of it: neither a host that says something new nor one beside it is
	// refused for longer than that takes, and nobody for another's sake.
	if status, said := b.says(3, "dev", "17.2.2", nil); status != http.StatusOK {
		t.Errorf("a host of another token: %d %s", status, said.Error)
	}
	b.says(0, "dev", "17.2.3", nil)
	for _, r := range []*reportWorld{b, a, a.again(w.other)} {
		if err := r.fleet.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if status, _ := r.says(i, "dev", "17.2.4", nil); status != http.StatusUnauthorized {
				t.Errorf("host %d, which was removed, reports: %d", i, status)
			}
		}
		if got := r.fleet.Len(); got != 1 {
			t.Errorf("%d hosts are known; want the one", got)
		}
		if status, said := r.says(3, "dev", "17.2.2", nil); status != http.StatusOK {
			t.Errorf("a host of another token: %d %s", status, said.Error)
		}
	}
	if _, err := revoke(true, false); err != store.ErrNotFound {
		t.Errorf("once more: %v", err)
	}
	b.joined(other, "dev", 1)
	b.last[1] = 0
	b.said(1, "dev", "17.2.4", nil)
	if e, _ := b.fleet.Entry(rollout.ParseHostID(hostUUID(1))); inventory.TokenName(&e) != "other" {
		t.Errorf("%+v", e)
	}
}
