package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/internal/version"
)

func TestEachAnswerHasTheDateOfItsSecond(t *testing.T) {
	var at time.Time
	h := &handler{now: func() time.Time { return at }, answer: func(rollout.Query, time.Time) find.Answer {
		return find.Answer{Version: "15.1.1", Edition: version.OSS}
	}}
	zone := time.FixedZone("", 3600)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2031, 3, 30, 0, 59, 59, 999_999_999, zone), "Sat, 29 Mar 2031 23:59:59 GMT"},
		{time.Date(2031, 3, 30, 0, 59, 59, 0, zone), "Sat, 29 Mar 2031 23:59:59 GMT"},
		{time.Date(2031, 3, 30, 1, 0, 0, 0, zone), "Sun, 30 Mar 2031 00:00:00 GMT"},
		{time.Date(2031, 3, 29, 23, 0, 0, 0, time.UTC), "Sat, 29 Mar 2031 23:00:00 GMT"}, // a clock that was set back
	} {
		at = c.at
		w := httptest.NewRecorder()
		h.find(w, httptest.NewRequest(http.MethodGet, "/v1/webapi/find", nil))
		if got := w.Result().Header["Date"]; len(got) != 1 || got[0] != c.want {
			t.Errorf("at %v the date is %q, want %q", c.at, got, c.want)
		}
	}
}
