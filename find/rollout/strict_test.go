package rollout

import (
	"reflect"
	"strings"
	"testing"
)

func TestAliasesAreFollowed(t *testing.T) {
	const text = "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {schedules: {regular: [{name: a, start_hour: 1, days: &d [Mon]}, {name: b, start_hour: 2, days: *d}]}}}"
	list, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if g := list[0].(*Config).Spec.Agents.Schedules.Regular[1]; !reflect.DeepEqual(g.Days, []Day{"Mon"}) {
		t.Errorf("got %+v", g)
	}
	if list, err := Parse([]byte("kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: &s {agents: *s}")); err == nil {
		t.Errorf("an alias of itself is taken for %+v", list)
	}
}

// A short text must not become a long one, nor take long to be refused.
func TestAliasesDoNotMultiply(t *testing.T) {
	names := strings.TrimSuffix(strings.Repeat("a, ", 20_000), ", ")
	text := "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {schedules: {regular: [{name: g, start_hour: 1, requires: &r [" + names + "]}" +
		strings.Repeat(", {name: g, start_hour: 1, requires: *r}", 10_000) + "]}}}"
	if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "its YAML aliases expand to too much") {
		t.Errorf("got %v", err)
	}
	long := "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {schedules: {regular: [{name: g, start_hour: 1, requires: [" + names + strings.Repeat(", a", 100_000) + "]}]}}}"
	if _, err := Parse([]byte(long)); err == nil || !strings.Contains(err.Error(), "spec: it is larger than 131072 bytes") {
		t.Errorf("got %v", err)
	}
}

// FuzzParse: whatever is taken can be written and is the same when read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{referenceConfig, referenceVersion, `{"kind":"autoupdate_version","metadata":{"name":"autoupdate-version"},"spec":{"agents":{"target_version":"v1.2.3"}}}`, "kind: *a", "a: &a [*a]",
		"kind: cluster_autoupdate_config\nspec: {agent_autoupdate: true, agent_default_schedules: {regular: {start_hour: 1}}}",
		"kind: autoupdate_version\nspec: {agent_version: 1.2.3, agent_version_schedule: critical}",
		"kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {schedules: {critical: [{name: a, start_hour: 1, max_in_flight: 10%, max_failed_before_halt: 5}]}}}",
		`{"kind":"autoupdate_agent_rollout","metadata":{"name":"autoupdate-agent-rollout"},"spec":{"start_version":"1.2.3","target_version":"1.2.4","schedule":"regular","autoupdate_mode":"enabled","strategy":"halt-on-error"},"status":{"state":"active","start_time":"2025-06-02T10:00:00Z","groups":[{"name":"a","state":"active","plan":{"start_time":"2025-06-02T10:00:00Z","host_count":3,"last_active_host_index":1}}]}}`,
		`{"kind":"autoupdate_agent_report","metadata":{"name":"s"},"spec":{"timestamp":"2025-06-02T10:00:00Z","groups":{"a":{"versions":{"1.2.3":{"count":1}}}}}}`,
		`{"kind":"agent_rollout_plan","metadata":{"name":"a"},"spec":{"start_time":"2025-06-02T10:00:00Z","version":"1.2.3","schedule":"regular","host_count":1,"hosts":["x"]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Parse(data)
		if err != nil {
			return
		}
		for _, r := range list {
			text, err := JSON(r)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(text)
			if err != nil || len(again) != 1 {
				t.Fatalf("%s: %v", text, err)
			}
			if twice, _ := JSON(again[0]); string(twice) != string(text) {
				t.Errorf("%s became %s", text, twice)
			}
		}
	})
}
