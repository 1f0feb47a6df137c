package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// All faults of a document, and of all documents, are said at once, each with its path, and none that only follows from
// another one.
func TestAllFaultsAreSaidAtOnce(t *testing.T) {
	const text = `kind: autoupdate_config
metadata: {name: mine}
spec:
  agents:
    mode: on
    strateggy: halt-on-error
    schedules:
      regular:
      - {name: dev, start_hour: 25, days: [Mon, Tues], canary_count: 9}
      - {name: "", start_hour: "4", wait_hours: -1}
      - {name: dev, start_hour: 4}
---
kind: autoupdate_version
spec: {agents: {start_version: latest, schedule: urgent}}
`
	want := []string{
		`document 1: line 5: spec.agents.mode: "on" is not one of`,
		`document 1: line 6: spec.agents.strateggy: unknown field`,
		`document 1: line 9: spec.agents.schedules.regular[0].days[1]: "Tues" is not one of`,
		`document 1: line 10: spec.agents.schedules.regular[1].start_hour: want a whole number`,
		`document 1: metadata.name: mine is not autoupdate-config`,
		`document 1: spec.agents.schedules.regular[0].start_hour: 25 is not an hour`,
		`document 1: spec.agents.schedules.regular[0].canary_count: 9 is not between`,
		`document 1: spec.agents.schedules.regular[1].name: it is missing`,
		`document 1: spec.agents.schedules.regular[1].wait_hours: -1 is not between`,
		`document 1: spec.agents.schedules.regular[2].name: there is another group dev`,
		`document 2: line 14: spec.agents.start_version: version "latest"`,
		`document 2: line 14: spec.agents.schedule: "urgent" is not one of`,
		`document 2: spec.agents.target_version: it is missing`,
	}
	_, err := Parse([]byte(text))
	several, ok := errors.AsType[*Faults](err)
	if !ok || len(several.Unwrap()) != len(want) {
		t.Fatalf("it is %v; want %d faults", err, len(want))
	}
	for i, one := range several.Unwrap() {
		if !strings.HasPrefix(one.Error(), want[i]) {
			t.Errorf("fault %d is\n%s\nwant\n%s", i, one, want[i])
		}
	}
	if said := err.Error(); !strings.Contains(said, "; document 1: line 6") || !strings.HasSuffix(said, " more") || len(said) > 1100 {
		t.Errorf("it says %s", said)
	}

	// However many there are, some are enough.
	many := "kind: autoupdate_config\nspec: {agents: {schedules: {regular: ["
	for i := range 5000 {
		many += fmt.Sprintf("{nam%d: 1}, ", i)
	}
	_, err = Parse([]byte(many + "]}}}"))
	if several, ok := errors.AsType[*Faults](err); !ok || len(several.Unwrap()) > maxFaults {
		t.Errorf("%.200v", err)
	}
}
