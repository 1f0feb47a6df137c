package state

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"teleport-update/internal/version"
)

// rows are what later schemas could bring.
func rows() []need {
	return []need{
		{field: "database.skipped", schema: 3, optional: true},
		{field: "agent.state", value: "frozen", schema: 2},
		{field: "from.version", schema: 4},
	}
}

func TestReadableFromIsRaisedOnlyForWhatIsUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		j    Journal
		want int
	}{
		"nothing new":                     {Journal{}, 1},
		"another value of a field":        {Journal{Agent: Agent{State: AgentRunning}}, 1},
		"the value that is new":           {Journal{Agent: Agent{State: "frozen"}}, 2},
		"two of them":                     {Journal{Agent: Agent{State: "frozen"}, Database: Database{Skipped: true}}, 3},
		"one that was written before":     {Journal{Head: Head{ReadableFrom: 2}}, 2},
		"one below a field that is there": {Journal{From: &Tree{Release: version.Release{Version: "1.0.0"}}}, 4},
	} {
		if err := tc.j.stamp(tc.j, rows()); err != nil || tc.j.ReadableFrom != tc.want || tc.j.Schema != Schema {
			t.Errorf("%s: %+v, %v; want it to be readable from %d on", name, tc.j.Head, err, tc.want)
		}
	}
}

func TestWhatAnOlderProgramDoesNotKnowIsLeftOutOrRefused(t *testing.T) {
	j := Journal{ID: "x", Started: noon, Database: Database{Skipped: true, Path: "/d"}, Unit: UnitFile{Content: []byte("unit"), Mode: 0o644}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(j.stamp(j, rows()))
	whole := j
	must(j.fit(3, rows()))
	if !reflect.DeepEqual(j, whole) {
		t.Errorf("for one that knows it: %+v; want %+v", j, whole)
	}
	must(j.fit(2, rows()))
	whole.Database.Skipped, whole.ReadableFrom = false, 1
	if !reflect.DeepEqual(j, whole) {
		t.Errorf("for one that does not: %+v; want %+v", j, whole)
	}
	j.Agent.State = "frozen"
	if err := j.fit(1, rows()); err == nil || !strings.Contains(err.Error(), `takes schema 2 ["agent.state frozen"]`) || j.Agent.State != "frozen" {
		t.Errorf("what cannot be left out: %v, %+v", err, j.Agent)
	}
}

// The shipped table: each row names a field that is there, at a schema that is known.
func TestTheTableOfNeedsIsWhole(t *testing.T) {
	data, err := os.ReadFile("testdata/journal.json")
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	highest := firstSchema
	for _, n := range append(rows(), needs()...) {
		in, name := n.find(fields)
		if _, ok := in[name]; !ok {
			t.Errorf("%s: no document has that field", n)
		}
	}
	for _, n := range needs() {
		if highest = max(highest, n.schema); n.schema <= firstSchema {
			t.Errorf("%s: what takes schema %d needs no row", n, n.schema)
		}
	}
	if highest > Schema {
		t.Errorf("the table goes up to schema %d, this program says that it knows %d", highest, Schema)
	}
}

// The head never changes: who reads no more of a document than that finds who may.
func TestTheHeadIsReadWhateverTheRestIs(t *testing.T) {
	for content, want := range map[string]int{
		`{"schema":1,"readable_from":1}`:                                              1,
		`{"schema":7,"readable_from":1,"phase":{"now":"an object"},"links":"a text"}`: 1,
		`{"schema":7,"readable_from":2,"phase":7}`:                                    2,
		`{"schema":7}`: 7,
		`{}`:           0,
	} {
		h, err := readHead([]byte(content))
		newer, refused := errors.AsType[*NewerError](err)
		if h.ReadableFrom != want || refused != (want > Schema) || refused && newer.ReadableFrom != want {
			t.Errorf("%s: %+v, %v; want %d", content, h, err, want)
		}
	}
	if _, err := readHead([]byte(`[]`)); err == nil {
		t.Error("a list has a head")
	}
}
