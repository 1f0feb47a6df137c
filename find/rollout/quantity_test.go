package rollout

import (
	"encoding/json"
	"testing"
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
