package rollout

import (
	"encoding/json"
	"testing"
	"time"
)

// What the admin API sends is read again by the commands.
func TestASharesJSONIsReadAgain(t *testing.T) {
	for _, want := range []Share{{5, false}, {0, false}, {10, true}, {100, true}} {
		data, err := json.Marshal(GroupOverview{Name: "prod", State: Active, Reason: InWindow, MaxInFlight: &want})
		if err != nil {
			t.Fatal(err)
		}
		var got GroupOverview
		if err := json.Unmarshal(data, &got); err != nil || *got.MaxInFlight != want {
			t.Errorf("%s is read as %v (%v)", data, got.MaxInFlight, err)
		}
	}
	for _, text := range []string{`-1`, `1.5`, `"x"`, `{}`, `"101%"`, `[]`} {
		var s Share
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s is read as %v", text, s)
		}
	}
}

func TestShares(t *testing.T) {
	for _, tc := range []struct {
		text  string
		hosts int
		want  int
	}{
		{"10%", 25, 2}, {"10%", 9, 1}, {"10%", 0, 1}, {"0%", 100, 0}, {"0", 100, 0}, {"5", 2, 5}, {"100%", 7, 7}, {"1%", 1_000_000, 10_000}, {"33%", 100, 33},
	} {
		var s Share
		if err := s.UnmarshalText([]byte(tc.text)); err != nil || s.Of(tc.hosts) != tc.want || s.String() != tc.text {
			t.Errorf("%s of %d hosts is %d, %v; want %d", tc.text, tc.hosts, s.Of(tc.hosts), err, tc.want)
		}
	}
}

func TestDurationsAreWrittenShort(t *testing.T) {
	for d, want := range map[time.Duration]string{2 * time.Hour: "2h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", time.Minute + 10*time.Second: "1m10s", 20*time.Hour + 10*time.Second: "20h0m10s"} {
		if got, _ := Duration(d).MarshalText(); string(got) != want {
			t.Errorf("%s is written as %s; want %s", d, got, want)
		}
	}
}
