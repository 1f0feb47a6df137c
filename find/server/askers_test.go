package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/inventory"
)

// What anybody asks moves no rollout.
func TestQuestionsMoveNothing(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
	w.write(scheduled)
	r := w.reporting(newClock(), w.store)
	asked := inventory.NewAsked(r.clock.Now, nil)
	r.handler = New(Options{Answers: r.stored, Fleet: r.fleet, Asked: asked, Log: w.options.Log})
	before := r.everything()
	for i := range 100 {
		rec := httptest.NewRecorder()
		r.handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/webapi/find?group=dev&host="+hostUUID(i), nil))
	}
	if r.everything() != before {
		t.Error("questions have changed something")
	}
	if n := r.fleet.Counts(new(rollout.Rollout), nil, r.clock.Now()); len(n.Groups) != 0 || r.fleet.Len() != 0 {
		t.Errorf("%+v", n)
	}
	a := newAdminSocket(t, admin.Options{Stored: r.stored, Store: w.store, Engine: r.engine, Fleet: r.fleet, Asked: asked, Log: w.options.Log})
	if status, body := a.do("GET", "/v1/asked", ""); status != 200 || !strings.Contains(body, `"unconfirmed":true`) || !strings.Contains(body, `"questions":100`) {
		t.Errorf("%d %s", status, body)
	}
}
