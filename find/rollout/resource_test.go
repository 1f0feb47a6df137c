package rollout

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// As printed in the reference of Managed Updates v2.
const (
	referenceConfig = `kind: autoupdate_config
metadata:
  # autoupdate_config is a singleton resource.
  name: autoupdate-config
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - name: staging
        start_hour: 4
        days: [ "Mon", "Tue", "Wed", "Thu" ]
      - name: production
        start_hour: 5
        wait_hours: 24
        canary_count: 5
  tools:
    mode: enabled
`
	referenceVersion = `kind: autoupdate_version
metadata:
  name: autoupdate-version
spec:
  agents:
    start_version: v17.2.0
    target_version: v17.2.1
    schedule: regular
    mode: enabled
  tools:
    target_version: v17.2.1
`
)

func hour(n int) *int { return &n }

func TestTheResourcesOfTheReferenceAreRead(t *testing.T) {
	config := &Config{Kind: KindConfig, Metadata: Metadata{Name: NameConfig}, Spec: ConfigSpec{
		Agents: ConfigAgents{Mode: Enabled, Strategy: HaltOnError, Schedules: Schedules{Regular: []Group{
			{Name: "staging", StartHour: hour(4), Days: []Day{"Mon", "Tue", "Wed", "Thu"}},
			{Name: "production", StartHour: hour(5), WaitHours: 24, CanaryCount: 5},
		}}},
		Tools: ConfigTools{Mode: ToolsEnabled},
	}}
	version := &Version{Kind: KindVersion, Metadata: Metadata{Name: NameVersion}, Spec: VersionSpec{
		Agents: VersionAgents{StartVersion: "17.2.0", TargetVersion: "17.2.1", Schedule: Regular, Mode: Enabled},
		Tools:  VersionTools{TargetVersion: "17.2.1"},
	}}
	got, err := Parse([]byte(referenceConfig + "---\n# nothing\n---\n" + referenceVersion))
	if err != nil {
		t.Fatal(err)
	}
	if want := []Resource{config, version}; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	const windows = `kind: autoupdate_config
version: v1
metadata: {name: autoupdate-config, revision: 7}
spec: {agents: {strategy: time-based, maintenance_window_duration: 90m, schedules: {regular: [{name: 007, start_hour: 0, days: ["*"]}]}}}`
	for _, text := range []string{referenceConfig, referenceVersion, windows} {
		list, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for name, write := range map[string]func(Resource) ([]byte, error){"YAML": YAML, "JSON": JSON} {
			data, err := write(list[0])
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(data)
			if err != nil || !reflect.DeepEqual(again, list) {
				t.Errorf("%s: %v\n%s\ngot  %+v\nwant %+v", name, err, data, again, list)
			}
		}
	}
	list, err := Parse([]byte(windows))
	if err != nil {
		t.Fatal(err)
	}
	config := list[0].(*Config)
	if config.Spec.Agents.Schedules.Regular[0].Name != "007" || time.Duration(config.Spec.Agents.Window) != 90*time.Minute || config.Metadata.Revision != 7 {
		t.Errorf("got %+v", config)
	}
	data, _ := YAML(config)
	if want := "maintenance_window_duration: 1h30m\n"; !strings.Contains(string(data), want) || strings.Contains(string(data), "tools") {
		t.Errorf("written as\n%s", data)
	}
}
