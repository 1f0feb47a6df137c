package transaction

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// A person's own entries in updates.yaml may be what JSON has not. They stay there, and
// keep no pin from being asked of another process, or written into the journal.
func TestWhatJSONHasNotStaysInUpdatesYAML(t *testing.T) {
	m := upgrade(t, twoHolds)
	text, err := os.ReadFile(m.Host.Paths.Config())
	must(t, err)
	odd := strings.Replace(string(text), "spec:\n", "spec:\n  odd: .nan\n  7: seven\n  deep: {2: two, .inf: {true: yes}}\n", 1)
	must(t, os.WriteFile(m.Host.Paths.Config(), []byte(odd), 0o600))
	c, err := m.Host.Paths.LoadConfig()
	must(t, err)
	r := m.request(Pin)
	r.Spec = &c.Spec
	r.Spec.Pinned = true
	asked, err := json.Marshal(Order{Transaction: &r})
	must(t, err)
	order, err := ReadOrder(bytes.NewReader(asked))
	must(t, err)
	must(t, m.Do(t.Context(), order))
	m.endsOn("1.1.0")
	c, err = m.Host.Paths.LoadConfig()
	must(t, err)
	number, _ := c.Spec.Unknown["odd"].(float64)
	deep, _ := c.Spec.Unknown["deep"].(map[any]any)
	if !c.Spec.Pinned || !math.IsNaN(number) || c.Spec.Unknown["7"] != "seven" || deep[2] != "two" || len(deep) != 2 {
		t.Errorf("updates.yaml holds %+v", c.Spec)
	}
}

// FuzzOrder: what another process of this program asks for.
func FuzzOrder(f *testing.F) {
	f.Add([]byte(`{"switch":{"kind":"update","from":{"version":"1.0.0","edition":"oss"},"to":{"version":"1.1.0","edition":"oss"}}}`))
	f.Add([]byte(`{"switch":{"kind":"update","command":"reboot"}}`))
	f.Add([]byte(strings.Repeat("[", 1000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if o, err := ReadOrder(bytes.NewReader(data)); err != nil && o != (Order{}) {
			t.Errorf("%+v came with %v", o, err)
		}
	})
}
