package settings

import (
	"reflect"
	"testing"
	"time"

	"teleport-update/internal/duration"
)

// Each row sets the field that it is about, and nothing of a text that may not stand there.
func TestEachSettingHasARow(t *testing.T) {
	s := Settings{RollbackWindow: duration.Duration(time.Hour)} // 0 turns it off
	for _, r := range All {
		tc, known := map[string]struct{ good, bad string }{
			"ready-url":       {"https://127.0.0.1:3000/readyz", "127.0.0.1:3000"},
			"health-window":   {"45s", "-1s"},
			"rollback-window": {"0", "a day"},
		}[r.Flag]
		before := s
		if err := r.Set(&s, tc.bad); !known || err == nil || s != before {
			t.Errorf("--%s %q: %v, %+v", r.Flag, tc.bad, err, s)
		}
		if err := r.Set(&s, tc.good); err != nil {
			t.Errorf("--%s %q: %v", r.Flag, tc.good, err)
		}
	}
	if want := (Settings{Window: duration.Duration(45 * time.Second), ReadyURL: "https://127.0.0.1:3000/readyz"}); s != want {
		t.Errorf("set was %+v; want %+v", s, want)
	}
	if n := reflect.TypeFor[Settings]().NumField(); n != len(All) {
		t.Errorf("there are %d settings and %d rows", n, len(All))
	}
}
