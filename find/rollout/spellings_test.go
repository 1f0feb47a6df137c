package rollout

import "testing"

// What tctl prints and the documents of Managed Updates show can be applied.
func TestOtherPeoplesSpellings(t *testing.T) {
	const head = "kind: autoupdate_version\nversion: v1\nmetadata: {name: autoupdate-version, "
	const spec = "}\nspec: {agents: {start_version: v17.2.0, target_version: v17.2.1, schedule: immediate, mode: enabled}}"
	for name, tc := range map[string]struct {
		text string
		many int
	}{
		"what tctl get prints":     {head + "id: 1731000000000000000, revision: 43e96231-faaf-43c3-b9b8-15cf91813389, expires: null" + spec, 1},
		"no metadata":              {"kind: autoupdate_config\nspec: {agents: {mode: enabled}}", 1},
		"no metadata of a version": {"kind: autoupdate_version\nspec: {agents: {target_version: 17.2.1}}", 1},
		"weekdays in full":         {"kind: autoupdate_config\nspec: {agents: {schedules: {regular: [{name: a, days: [mon, Wednesday, FRIDAY], start_hour: 5}]}}}", 1},
		"a list in JSON":           {`[{"kind":"autoupdate_config","version":"v1","metadata":{"name":"autoupdate-config"},"spec":{"agents":{"mode":"enabled"}}}]`, 1},
		"a list in YAML":           {"- {kind: autoupdate_config, spec: {agents: {mode: enabled}}}\n- {kind: autoupdate_version, spec: {agents: {target_version: 17.2.1}}}", 2},
	} {
		list, err := Parse([]byte(tc.text))
		if err != nil || len(list) != tc.many {
			t.Errorf("%s: %d resources, %v", name, len(list), err)
			continue
		}
		if list[0].GetMetadata().Name == "" || list[0].GetMetadata().Revision != 0 {
			t.Errorf("%s: the metadata is %+v", name, list[0].GetMetadata())
		}
	}
	for name, text := range map[string]string{
		"a list of nothing":     "[]",
		"another revision":      head + "revision: latest" + spec,
		"an expiry that is set": head + "expires: 2026-01-01T00:00:00Z" + spec,
		"a list of words":       "[autoupdate_config]",
	} {
		if list, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is taken: %+v", name, list)
		}
	}
}

func TestTheSpellingsOfTheRFDAreTaken(t *testing.T) {
	const text = `kind: cluster_autoupdate_config
spec:
  agent_autoupdate: true
  agent_group_schedules:
    regular:
    - name: staging-group
      days: ["Sun", "Mon"]
      start_hour: 3
      jitter_seconds: 60
      timeout_seconds: 60
      failure_seconds: 0
      max_in_flight: 25%
      max_timeout_before_halt: 10%
      max_failed_before_halt: 0
      requires: ["test-group"]
    - name: test-group
  agent_default_schedules:
    regular: {jitter_seconds: 5}
    critical: {days: ["*"], start_hour: 7}
    immediate: {jitter_seconds: 30}
---
kind: autoupdate_version
spec:
  agent_version: 15.1.1
  agent_version_schedule: critical
`
	list, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const want = `kind: autoupdate_config
metadata:
  name: autoupdate-config
spec:
  agents:
    mode: enabled
    schedules:
      regular:
        - name: staging-group
          days: [Sun, Mon]
          start_hour: 3
          jitter_seconds: 60
          timeout_seconds: 60
          failure_seconds: 0
          max_in_flight: 25%
          max_timeout_before_halt: 10%
          max_failed_before_halt: 0%
          requires: [test-group]
        - name: test-group
          days: ['*']
          start_hour: 0
        - name: default
          days: ['*']
          start_hour: 0
          jitter_seconds: 5
      critical:
        - name: default
          days: ['*']
          start_hour: 7
      immediate:
        jitter_seconds: 30
`
	if got, err := YAML(list[0]); string(got) != want || err != nil {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, got, want)
	}
	if v := list[1].(*Version); v.Spec.Agents != (VersionAgents{TargetVersion: "15.1.1", Schedule: Critical}) || v.Metadata.Name != NameVersion {
		t.Errorf("got %+v", v)
	}
	if list, err = Parse([]byte("kind: cluster_autoupdate_config\nspec: {agent_autoupdate: false}")); err != nil || list[0].(*Config).Spec.Agents.Mode != Disabled {
		t.Errorf("%v, %v", list, err)
	}
}
