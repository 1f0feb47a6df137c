package state

import (
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"
)

const fullConfig = `version: v1
kind: agent_versions
later: {list: [a, {b: c}]}
spec:
  proxy: a.example.com
  active_version: 15.1.1
  url_templates: [https://a.example.com, https://b.example.com]
  health: {window: 5s, later: [1]}
status:
  active_edition: oss
  last_update: {time: 2025-06-02T12:00:00Z, target: 15.1.1, result: succeeded, later: {x: [y]}}
  failed: {version: 15.1.2, edition: oss, sha256: "", attempts: 2, next_attempt: 2025-06-02T12:00:00Z, error: e}
  failed_before: [{version: 15.1.3, edition: oss, attempts: 1, next_attempt: 2025-06-02T12:00:00Z, error: e}]
  held: {version: 15.1.4, edition: oss, since: 2025-06-02T12:00:00Z}
`

// spoil changes all that can be reached.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			spoil(value)
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			spoil(v.Field(i))
		}
	}
	if v.CanSet() {
		v.SetZero()
	}
}

// What a caller does with a configuration is not in that of the next one.
func TestAConfigurationIsParsedOnce(t *testing.T) {
	var want Config
	if err := yaml.Unmarshal([]byte(fullConfig), &want); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got, err := ParseConfig(fullConfig)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%+v\n%+v", err, got, want)
		}
		spoil(reflect.ValueOf(&got))
	}
	if parsed.text != fullConfig {
		t.Error("it is parsed again")
	}
	if other, err := ParseConfig("version: v1\nkind: agent_versions\n"); err != nil || !reflect.DeepEqual(other, EmptyConfig()) {
		t.Errorf("another text: %+v, %v", other, err)
	}
	if _, err := ParseConfig(fullConfig + "version: ["); err == nil {
		t.Error("a damaged text is taken")
	}
}
