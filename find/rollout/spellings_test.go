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
