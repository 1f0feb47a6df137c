package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"teleport-update/find/store"
)

// accessWorld is the admin API over TCP, with a token of each role.
type accessWorld struct {
	*reportWorld
	access *Access
	url    string
	tokens map[Role]string
}

func newAccessWorld(t *testing.T) *accessWorld {
	t.Helper()
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 4}"))
	c := newClock()
	r := w.reporting(c, w.options.Store)
	a := &accessWorld{reportWorld: r, access: NewAccess(w.options.Store, c.Now), tokens: make(map[Role]string)}
	api := NewAdmin(AdminOptions{Stored: r.stored, Store: w.store, Engine: r.engine, Fleet: r.fleet, Access: a.access, Log: w.options.Log})
	srv := httptest.NewServer(RequireAccess(a.access, api))
	t.Cleanup(srv.Close)
	a.url = srv.URL
	for _, role := range Roles {
		made, err := a.access.Add(t.Context(), AdminAccessRequest{Name: string(role), Role: role}, store.Audit{Who: "uid 0", Time: c.Now()}, false)
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

// Each request of the admin API, and the least role that may make it; "local" may nobody who comes over TCP. As a
// dry run where that is possible, so that the order of the requests makes no difference.
func TestEachRoleMayDoWhatItIsFor(t *testing.T) {
	a := newAccessWorld(t)
	a.w.write(immediate)
	for _, tc := range []struct {
		method, path, body string
		least              Role
	}{
		{"GET", "/v1/resources", "", Viewer},
		{"GET", "/v1/resources/autoupdate_config", "", Viewer},
		{"GET", "/v1/resources/agent_rollout_plan/dev", "", Viewer},
		{"GET", "/v1/status", "", Viewer},
		{"GET", "/v1/overview", "", Viewer},
		{"GET", "/v1/why", "", Viewer},
		{"GET", "/v1/counts", "", Viewer},
		{"GET", "/v1/hosts", "", Viewer},
		{"GET", "/v1/hosts/" + hostUUID(1), "", Viewer},
		{"GET", "/v1/tokens", "", Viewer},
		{"GET", "/v1/history", "", Viewer},
		{"GET", "/v1/asked", "", Viewer},
		{"GET", "/v1/channels", "", Viewer},
		{"POST", "/v1/orders?dry_run=true", `{"verb":"start-update","groups":["dev"]}`, Operator},
		{"PUT", "/v1/resources?dry_run=true", immediate, VersionAdmin},
		{"DELETE", "/v1/resources/autoupdate_version?dry_run=true", "", VersionAdmin},
		{"PUT", "/v1/resources?dry_run=true", enabled, ConfigAdmin},
		{"PUT", "/v1/resources?dry_run=true", immediate + "\n---\n" + enabled, ConfigAdmin},
		{"POST", "/v1/tokens?dry_run=true", `{"name":"web"}`, ConfigAdmin},
		{"DELETE", "/v1/tokens/all?dry_run=true", "", ConfigAdmin},
		{"DELETE", "/v1/hosts/" + hostUUID(1) + "?dry_run=true", "", ConfigAdmin},
		{"GET", "/v1/access", "", local},
		{"POST", "/v1/access", `{"name":"x","role":"viewer"}`, local},
		{"DELETE", "/v1/access/viewer", "", local},
		{"POST", "/v1/%61ccess", `{"name":"x","role":"viewer"}`, local},
	} {
		for _, role := range Roles {
			status, body := a.do("Bearer "+a.tokens[role], tc.method, tc.path, tc.body)
			if may := role.may(tc.least); may != (status != http.StatusForbidden) || status == http.StatusUnauthorized || status >= 500 {
				t.Errorf("%s %s as %s: %d %s; the least is %s", tc.method, tc.path, role, status, body, tc.least)
			}
		}
	}
	if list, err := a.access.List(t.Context()); err != nil || len(list) != len(Roles) {
		t.Errorf("in the end the tokens are %v, %v", list, err)
	}
}

func TestWithoutAnAccessTokenNothingIsSaidOrDone(t *testing.T) {
	a := newAccessWorld(t)
	joins := a.token("dev")
	short, err := a.access.Add(t.Context(), AdminAccessRequest{Name: "short", Role: ConfigAdmin, ExpiresIn: "1h"}, store.Audit{Who: "uid 0"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := a.do("bearer "+short.Token, "GET", "/v1/status", ""); status != http.StatusOK {
		t.Errorf("before it expires: %d %s", status, body)
	}
	a.clock.pass(time.Hour)
	for _, authorization := range []string{
		"", "Bearer", "Bearer ", a.tokens[ConfigAdmin], "Basic " + a.tokens[ConfigAdmin], "Bearer " + a.tokens[ConfigAdmin] + "x", "Bearer  " + a.tokens[ConfigAdmin],
		"Bearer " + strings.ToUpper(a.tokens[ConfigAdmin]), "Bearer teleport-find-access-", "Bearer " + joins, "Bearer " + short.Token, "Bearer teleport-find-access-" + strings.Repeat("x", 10_000),
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
	other := NewAccess(a.w.options.Store, a.clock.Now)
	if name, role, err := other.Holder(t.Context(), a.tokens[Operator]); name != "operator" || role != Operator || err != nil {
		t.Fatalf("at another server: %s, %s, %v", name, role, err)
	}
	if err := a.access.Revoke(t.Context(), "operator", store.Audit{Who: "uid 0", Why: "left"}, true); err != nil {
		t.Fatal(err)
	}
	if status, _ := a.do("Bearer "+a.tokens[Operator], "GET", "/v1/status", ""); status != http.StatusOK {
		t.Errorf("after a dry run: %d", status)
	}
	if err := a.access.Revoke(t.Context(), "operator", store.Audit{Who: "uid 0", Why: "left"}, false); err != nil {
		t.Fatal(err)
	}
	if status, _ := a.do("Bearer "+a.tokens[Operator], "GET", "/v1/status", ""); status != http.StatusUnauthorized {
		t.Errorf("after it was revoked: %d", status)
	}
	time.Sleep(1100 * time.Millisecond) // for so long a server goes by what it has read
	if _, _, err := other.Holder(t.Context(), a.tokens[Operator]); err != ErrAccess {
		t.Errorf("at another server: %v", err)
	}
	if err := a.access.Revoke(t.Context(), "operator", store.Audit{}, false); err != store.ErrNotFound {
		t.Errorf("again: %v", err)
	}
}

// Who does something by a token is in the history, and the token itself is nowhere in the store.
func TestTheHistoryNamesTheToken(t *testing.T) {
	a := newAccessWorld(t)
	if status, body := a.do("Bearer "+a.tokens[VersionAdmin], "PUT", "/v1/resources?reason=monday", immediate); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	records, err := a.w.options.Store.History(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(records)
	if !strings.Contains(text, "token version-admin") || !strings.Contains(text, "monday") || !strings.Contains(text, "access add operator, operator") {
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
	for name, r := range map[string]AdminAccessRequest{
		"a role that there is not":   {Name: "a", Role: "root"},
		"the role of the socket":     {Name: "a", Role: local},
		"no role":                    {Name: "a"},
		"a name that is a path":      {Name: "../a", Role: Viewer},
		"the name of another":        {Name: "viewer", Role: Viewer},
		"a life of no time":          {Name: "a", Role: Viewer, ExpiresIn: "0s"},
		"a life that is no duration": {Name: "a", Role: Viewer, ExpiresIn: "soon"},
	} {
		if made, err := a.access.Add(t.Context(), r, store.Audit{}, false); err == nil || made.Token != "" {
			t.Errorf("%s: %v, %v", name, made, err)
		} else if _, refused := err.(*RefusedError); !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if made, err := a.access.Add(t.Context(), AdminAccessRequest{Name: "dry", Role: Viewer}, store.Audit{}, true); err != nil || made.Token != "" || made.Role != Viewer {
		t.Errorf("a dry run: %v, %v", made, err)
	}
	if list, err := a.access.List(t.Context()); err != nil || len(list) != len(Roles) {
		t.Errorf("in the end the tokens are %v, %v", list, err)
	}
}
