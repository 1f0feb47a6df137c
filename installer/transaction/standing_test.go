package transaction

import (
	"strings"
	"testing"
)

// What refuses any change is said before there is one. A change exchanges no database that goes with the stop.
func TestWhatRefusesAnyChangeIsSaidBeforeOne(t *testing.T) {
	standing := func(t *testing.T, set func(m *model)) (why, err error) {
		t.Helper()
		m := newModel(t, "1.0.0", "1.1.0", map[string]behaviour{"1.0.0": one, "1.1.0": {schema: 2, fate: holds}})
		set(m)
		c, err := m.Host.Paths.LoadConfig()
		must(t, err)
		return Standing(t.Context(), m.Machine, c)
	}
	for name, u := range unwilling {
		why, err := standing(t, u.set)
		if err != nil || why == nil || !strings.Contains(why.Error(), u.names) {
			t.Errorf("%s: a change is refused for %v, %v; want %s", name, why, err, u.names)
		}
	}
	if why, err := standing(t, func(*model) {}); why != nil || err != nil {
		t.Errorf("nothing is in the way, and a change is refused for %v, %v", why, err)
	}
	why, err := standing(t, func(m *model) {
		unwilling["a unit that upholds it"].set(m)
		m.ties.Runtime = []string{m.Host.Paths.DataDir}
	})
	if why != nil || err != nil {
		t.Errorf("the database goes with the stop, and a change is refused for %v, %v", why, err)
	}
}
