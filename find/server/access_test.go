package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// accessWorld is the admin API over TCP, with a token of each role.
type accessWorld struct {
	*reportWorld
	access *admin.Access
	url    string
	tokens map[adminapi.Role]string
}

func newAccessWorld(t *testing.T) *accessWorld {
	t.Helper()
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 4}"))
	c := newClock()
	r := w.reporting(c, w.options.Store)
	a := &accessWorld{reportWorld: r, access: admin.NewAccess(w.options.Store, c.Now), tokens: make(map[adminapi.Role]string)}
	api := admin.New(admin.Options{Stored: r.stored, Store: w.store, Engine: r.engine, Fleet: r.fleet, Access: a.access, Log: w.options.Log})
	srv := httptest.NewServer(admin.RequireAccess(a.access, api))
	t.Cleanup(srv.Close)
	a.url = srv.URL
	for _, role := range adminapi.Roles {
		made, err := a.access.Add(t.Context(), adminapi.AccessRequest{Name: string(role), Role: role}, store.Audit{Who: "uid 0", Time: c.Now()}, false)
		if err != nil {
			t.Fatal(err)
		}
		a.tokens[role] = made.Token
	}
	return a
}

func (a *accessWorld) do(authorization, method, path, body string) (int, string) {
	a.t.Helper()
	return request(a.t, http.DefaultClient, authorization, method, a.url+path, body)
}

// Each request of the admin API, and the roles that may make it; none means that nobody may who comes over TCP. As a
// dry run if there is one, so that the order of the requests makes no difference.
func TestEachRoleMayDoWhatItIsFor(t *testing.T) {
	a := newAccessWorld(t)
	a.w.write(immediate)
	config := func(mode, extra string) string {
		one, err := a.stored.Get(t.Context(), rollout.KindConfig, rollout.NameConfig)
		if err != nil {
			t.Fatal(err)
		}
		text, err := rollout.YAML(one)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Replace(string(text), "mode: enabled", "mode: "+mode+extra, 1)
	}
	const all, orders = "viewer operator version-admin config-admin admin", "operator version-admin config-admin admin"
	for _, tc := range []struct {
		method, path, body string
		roles              string
	}{
		{"GET", "/v1/resources", "", all},
		{"GET", "/v1/resources/autoupdate_config", "", all},
		{"GET", "/v1/resources/agent_rollout_plan/dev", "", all},
		{"GET", "/v1/status", "", all},
		{"GET", "/v1/overview", "", all},
		{"GET", "/v1/why", "", all},
		{"GET", "/v1/counts", "", all},
		{"GET", "/v1/hosts", "", all},
		{"GET", "/v1/hosts/" + hostUUID(1), "", all},
		{"GET", "/v1/tokens", "", all},
		{"GET", "/v1/history", "", all},
		{"GET", "/v1/channels", "", all},
		{"POST", "/v1/orders?dry_run=true", `{"verb":"start","groups":["dev"]}`, orders},
		{"PUT", "/v1/resources?dry_run=true", immediate, "version-admin admin"},
		{"DELETE", "/v1/resources/autoupdate_version?dry_run=true", "", "version-admin admin"},
		{"PUT", "/v1/resources?dry_run=true", enabled, "config-admin admin"},
		{"PUT", "/v1/resources?dry_run=true", immediate + "\n---\n" + enabled, "admin"},
		{"PUT", "/v1/resources?dry_run=true", config("suspended", ""), orders},
		{"PUT", "/v1/resources?dry_run=true", config("disabled", ""), "config-admin admin"},
		{"PUT", "/v1/resources?dry_run=true", config("suspended", "\n    strategy: time-based"), "config-admin admin"},
		{"PUT", "/v1/resources?dry_run=true", strings.Replace(config("suspended", ""), "revision:", "# revision:", 1), "config-admin admin"},
		{"PUT", "/v1/resources?dry_run=true", config("suspended", "") + "\n---\n" + immediate, "version-admin admin"},
		{"POST", "/v1/tokens?dry_run=true", `{"name":"web"}`, "config-admin admin"},
		{"DELETE", "/v1/tokens/all?dry_run=true", "", "config-admin admin"},
		{"DELETE", "/v1/hosts/" + hostUUID(1) + "?dry_run=true", "", "config-admin admin"},
		{"GET", "/v1/access", "", ""},
		{"POST", "/v1/access", `{"name":"x","role":"viewer"}`, ""},
		{"DELETE", "/v1/access/viewer", "", ""},
		{"POST", "/v1/%61ccess", `{"name":"x","role":"viewer"}`, ""},
		// These are no dry runs, so they come last.
	} {
		for _, role := range adminapi.Roles {
			status, body := a.do("Bearer "+a.tokens[role], tc.method, tc.path, tc.body)
			may := slices.Contains(strings.Fields(tc.roles), string(role))
			if may != (status != http.StatusForbidden) || status == http.StatusUnauthorized || status >= 500 {
				t.Errorf("%s %s %s as %s: %d %s; these may: %s", tc.method, tc.path, tc.body, role, status, body, tc.roles)
			}
			if !may && tc.roles != "" && !strings.Contains(body, "this is for the role ") {
				t.Errorf("%s %s as %s names no role that may: %s", tc.method, tc.path, role, body)
			}
		}
	}
	if list, err := a.access.List(t.Context()); err != nil || len(list) != len(adminapi.Roles) {
		t.Errorf("in the end the tokens are %v, %v", list, err)
	}
}

func TestWithoutAnAccessTokenNothingIsSaidOrDone(t *testing.T) {
	a := newAccessWorld(t)
	joins := a.token("dev")
	short, err := a.access.Add(t.Context(), adminapi.AccessRequest{Name: "short", Role: adminapi.ConfigAdmin, ExpiresIn: "1h"}, store.Audit{Who: "uid 0"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := a.do("bearer "+short.Token, "GET", "/v1/status", ""); status != http.StatusOK {
		t.Errorf("before it expires: %d %s", status, body)
	}
	a.clock.pass(time.Hour)
	for _, authorization := range []string{
		"", "Bearer", "Bearer ", a.tokens[adminapi.ConfigAdmin], "Basic " + a.tokens[adminapi.ConfigAdmin], "Bearer " + a.tokens[adminapi.ConfigAdmin] + "x", "Bearer  " + a.tokens[adminapi.ConfigAdmin],
		"Bearer " + strings.ToUpper(a.tokens[adminapi.ConfigAdmin]), "Bearer teleport-find-access-", "Bearer " + joins, "Bearer " + short.Token, "Bearer teleport-find-access-" + strings.Repeat("x", 10_000),
	} {
		for method, path := range map[string]string{"GET": "/v1/status", "DELETE": "/v1/resources/autoupdate_version", "POST": "/v1/nothing", "PUT": "/v1/resources"} {
			status, body := a.do(authorization, method, path, enabled)
			if status != http.StatusUnauthorized || strings.Contains(body, "dev") {
				t.Errorf("%s %s with %.60q: %d %s", method, path, authorization, status, body)
			}
		}
	}
}

func TestARevokedAccessTokenHoldsNoMoreAtAnyServer(t *testing.T) {
	a := newAccessWorld(t)
	other := admin.NewAccess(a.w.options.Store, a.clock.Now)
	if name, role, err := other.Holder(t.Context(), a.tokens[adminapi.Operator]); name != "operator" || role != adminapi.Operator || err != nil {
		t.Fatalf("at another server: %s, %s, %v", name, role, err)
	}
	if err := a.access.Revoke(t.Context(), "operator", store.Audit{Who: "uid 0", Why: "left"}, true); err != nil {
		t.Fatal(err)
	}
	if status, _ := a.do("Bearer "+a.tokens[adminapi.Operator], "GET", "/v1/status", ""); status != http.StatusOK {
		t.Errorf("after a dry run: %d", status)
	}
	if err := a.access.Revoke(t.Context(), "operator", store.Audit{Who: "uid 0", Why: "left"}, false); err != nil {
		t.Fatal(err)
	}
	if status, _ := a.do("Bearer "+a.tokens[adminapi.Operator], "GET", "/v1/status", ""); status != http.StatusUnauthorized {
		t.Errorf("after it was revoked: %d", status)
	}
	time.Sleep(1100 * time.Millisecond) // for so long a server goes by what it has read
	if _, _, err := other.Holder(t.Context(), a.tokens[adminapi.Operator]); err != admin.ErrAccess {
		t.Errorf("at another server: %v", err)
	}
	if err := a.access.Revoke(t.Context(), "operator", store.Audit{}, false); err != store.ErrNotFound {
		t.Errorf("again: %v", err)
	}
}

// Who does something by a token is in the history, and the token itself is nowhere in the store.
func TestTheHistoryNamesTheToken(t *testing.T) {
	a := newAccessWorld(t)
	if status, body := a.do("Bearer "+a.tokens[adminapi.VersionAdmin], "PUT", "/v1/resources?reason=monday", immediate); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	records, err := a.w.options.Store.History(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(records)
	if !strings.Contains(text, "token version-admin") || !strings.Contains(text, "monday") || !strings.Contains(text, "token add operator, operator") {
		t.Errorf("the history is %s", text)
	}
	if _, err := a.w.options.Store.Scan(t.Context(), "", func(item store.Item) bool {
		for role, secret := range a.tokens {
			if strings.Contains(string(item.Value), secret) || strings.Contains(text, secret) {
				t.Errorf("the token of %s is in %s", role, item.Key)
			}
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAccessTokensThatCannotBe(t *testing.T) {
	a := newAccessWorld(t)
	for name, r := range map[string]adminapi.AccessRequest{
		"a role that there is not":   {Name: "a", Role: "root"},
		"the role of the socket":     {Name: "a", Role: adminapi.Local},
		"no role":                    {Name: "a"},
		"a name that is a path":      {Name: "../a", Role: adminapi.Viewer},
		"the name of another":        {Name: "viewer", Role: adminapi.Viewer},
		"a life of no time":          {Name: "a", Role: adminapi.Viewer, ExpiresIn: "0s"},
		"a life that is no duration": {Name: "a", Role: adminapi.Viewer, ExpiresIn: "soon"},
	} {
		if made, err := a.access.Add(t.Context(), r, store.Audit{}, false); err == nil || made.Token != "" {
			t.Errorf("%s: %v, %v", name, made, err)
		} else if _, refused := err.(*parts.RefusedError); !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if made, err := a.access.Add(t.Context(), adminapi.AccessRequest{Name: "dry", Role: adminapi.Viewer}, store.Audit{}, true); err != nil || made.Token != "" || made.Role != adminapi.Viewer {
		t.Errorf("a dry run: %v, %v", made, err)
	}
	if list, err := a.access.List(t.Context()); err != nil || len(list) != len(adminapi.Roles) {
		t.Errorf("in the end the tokens are %v, %v", list, err)
	}
}
