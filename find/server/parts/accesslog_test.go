package parts

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Requests of four seconds: the log has all of them, or a sample that says what it lacks.
func TestTheLogOfRequestsIsASample(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rates  [4]int
		lines  [4]int
		spread bool // the last second's lines are of its beginning and of its end
	}{
		{"few", [4]int{100, 40, 100, 1}, [4]int{100, 40, 100, 1}, false},
		{"many", [4]int{1000, 1000, 1000, 1000}, [4]int{100, 100, 100, 100}, true},
		{"ever more", [4]int{50, 500, 5000, 10_000}, [4]int{50, 100, 100, 100}, true},
		{"a burst, and few again", [4]int{5000, 100, 100, 100}, [4]int{100, 2, 100, 100}, false},
		{"a burst, and nobody", [4]int{5000, 0, 30, 30}, [4]int{100, 0, 30, 30}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
			served := 0
			next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
			handler := logAccess(next, slog.New(slog.NewJSONHandler(&out, nil)), slog.LevelInfo, &sampler{now: func() time.Time { return now }})
			sent, logged := 0, 0
			for second, rate := range tc.rates {
				out.Reset()
				latest := 0
				for i := range rate {
					before := out.Len()
					handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/webapi/find", nil))
					if out.Len() > before {
						latest = i
					}
				}
				sent += rate
				lines := 0
				for decoder := json.NewDecoder(&out); decoder.More(); lines++ {
					var line struct {
						LeftOut int `json:"left_out"`
					}
					if err := decoder.Decode(&line); err != nil {
						t.Fatal(err)
					}
					logged += 1 + line.LeftOut
				}
				if lines != tc.lines[second] {
					t.Errorf("of %d requests in second %d, the log has %d; want %d", rate, second, lines, tc.lines[second])
				}
				if tc.spread && second == 3 && latest < rate/2-1 {
					t.Errorf("the sample ends with request %d of %d", latest, rate)
				}
				now = now.Add(time.Second)
			}
			if served != sent {
				t.Errorf("%d of %d requests were served", served, sent)
			}
			// The next line accounts for what the last second left out.
			now = now.Add(time.Minute)
			out.Reset()
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			var last struct {
				LeftOut int `json:"left_out"`
			}
			if err := json.Unmarshal(out.Bytes(), &last); err != nil {
				t.Fatal(err)
			}
			if logged+last.LeftOut != sent {
				t.Errorf("the lines account for %d of %d requests", logged+last.LeftOut, sent)
			}
		})
	}
}
