package server

import (
	"fmt"
	"net/http"
	"testing"

	"teleport-update/find/rollout"
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
