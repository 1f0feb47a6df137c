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

func TestDurationsAreWrittenShort(t *testing.T) {
	for d, want := range map[time.Duration]string{2 * time.Hour: "2h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", time.Minute + 10*time.Second: "1m10s", 20*time.Hour + 10*time.Second: "20h0m10s"} {
		if got, _ := Duration(d).MarshalText(); string(got) != want {
			t.Errorf("%s is written as %s; want %s", d, got, want)
		}
	}
}

func TestWhatCannotBeMeantIsRefusedWithItsPath(t *testing.T) {
	config := func(agents string) string {
		return "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec:\n  agents: {" + agents + "}\n"
	}
	group := func(g string) string { return config("schedules: {regular: [{name: a, start_hour: 1}, {" + g + "}]}") }
	version := func(agents string) string {
		return "kind: autoupdate_version\nmetadata: {name: autoupdate-version}\nspec: {agents: {" + agents + "}}"
	}
	const second = "spec.agents.schedules.regular[1]"
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", "there is no resource"},
		{"only a comment", "# a\n---\n", "there is no resource"},
		{"no kind", "metadata: {name: a}", "line 1: kind: it is missing"},
		{"a list", "- a", "kind: it is missing"},
		{"another kind", "kind: autoupdate_agent_rollout", `kind: "autoupdate_agent_rollout" is not one of autoupdate_config, autoupdate_version`},
		{"not YAML", "kind: [", "did not find expected node content"},
		{"another name", strings.Replace(config(""), "autoupdate-config", "mine", 1), "metadata.name: mine is not autoupdate-config"},
		{"no name", "kind: autoupdate_config", "metadata.name: it is missing (the only one of its kind is autoupdate-config)"},
		{"another version of the format", "version: v2\n" + config(""), "version: v2 is not v1"},
		{"a misspelt field at the top", "specs: {}\n" + config(""), "line 1: specs: unknown field (there are kind, version, metadata, spec)"},
		{"a misspelt field deep inside", group("name: b, start_hours: 2"), "line 4: " + second + ".start_hours: unknown field (there are name, days, start_hour, wait_hours, canary_count)"},
		{"a field in capitals", config("Mode: enabled"), "spec.agents.Mode: unknown field"},
		{"a field of a later time", group("name: b, start_hour: 2, max_in_flight: 10%"), second + ".max_in_flight: unknown field"},
		{"a field of another schedule", config("schedules: {critical: []}"), "spec.agents.schedules.critical: unknown field"},
		{"a field twice", config("mode: enabled, mode: disabled"), "line 4: spec.agents.mode: it is there twice"},
		{"a merge key", config("<<: {mode: enabled}"), "spec.agents.<<: unknown field"},
		{"no value", config("mode: "), "spec.agents.mode: it has no value"},
		{"a list for a mapping", "kind: autoupdate_config\nspec: []", "line 2: spec: want a mapping"},
		{"a mapping for a list", config("schedules: {regular: {name: a}}"), "spec.agents.schedules.regular: want a list"},
		{"a list for a word", config("mode: [enabled]"), "spec.agents.mode: want a single value"},
		{"an unknown mode", config("mode: on"), `spec.agents.mode: "on" is not one of enabled, suspended, disabled`},
		{"an unknown strategy", config("strategy: fast"), `spec.agents.strategy: "fast" is not one of halt-on-error, time-based`},
		{"suspended tools", "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {tools: {mode: suspended}}", `spec.tools.mode: "suspended" is not one of enabled, disabled`},
		{"a window without its strategy", config("maintenance_window_duration: 1h"), "spec.agents.maintenance_window_duration: it is for the strategy time-based only"},
		{"a window that is no duration", config("maintenance_window_duration: 1"), `spec.agents.maintenance_window_duration: "1" is not a duration`},
		{"a window of days", config("strategy: time-based, maintenance_window_duration: 25h"), "25h0m0s is not between"},
		{"a window that ends before it starts", config("strategy: time-based, maintenance_window_duration: -1h"), "-1h0m0s is not between"},
		{"a group without a name", group("start_hour: 2"), second + ".name: it is missing"},
		{"a group with an endless name", group("start_hour: 2, name: " + strings.Repeat("g", 201)), second + ".name: it is longer"},
		{"two groups of a name", group("start_hour: 2, name: a"), second + ".name: there is another group a"},
		{"a group without an hour", group("name: b"), second + ".start_hour: it is missing"},
		{"an hour after midnight", group("name: b, start_hour: 24"), second + ".start_hour: 24 is not an hour"},
		{"an hour before midnight", group("name: b, start_hour: -1"), second + ".start_hour: -1 is not an hour"},
		{"an hour in quotes", group(`name: b, start_hour: "4"`), second + ".start_hour: want a whole number"},
		{"an octal hour", group("name: b, start_hour: 010"), second + ".start_hour: want a whole number"},
		{"half an hour", group("name: b, start_hour: 4.5"), second + ".start_hour: want a whole number"},
		{"an hour that is out of bounds", group("name: b, start_hour: 99999999999999999999"), second + ".start_hour: want a whole number"},
		{"a day in full", group("name: b, start_hour: 2, days: [Mon, Tuesday]"), second + `.days[1]: "Tuesday" is not one of Mon, Tue`},
		{"a day twice", group("name: b, start_hour: 2, days: [Mon, Mon]"), second + ".days[1]: Mon is there twice"},
		{"a day that is no list", group("name: b, start_hour: 2, days: Mon"), second + ".days: want a list"},
		{"a negative wait", group("name: b, start_hour: 2, wait_hours: -1"), second + ".wait_hours: -1 is not between"},
		{"a wait of more than a week", group("name: b, start_hour: 2, wait_hours: 169"), second + ".wait_hours: 169 is not between"},
		{"six canaries", group("name: b, start_hour: 2, canary_count: 6"), second + ".canary_count: 6 is not between"},
		{"a wait under time-based", config("strategy: time-based, schedules: {regular: [{name: a, start_hour: 1, wait_hours: 1}]}"), "regular[0].wait_hours: it is for the strategy halt-on-error only"},
		{"canaries under time-based", config("strategy: time-based, schedules: {regular: [{name: a, start_hour: 1, canary_count: 1}]}"), "regular[0].canary_count: it is for the strategy halt-on-error only"},
		{"a version without a target", version("start_version: 17.2.0"), "spec.agents.target_version: it is missing"},
		{"a target that is a range", version("target_version: 17.2"), "spec.agents.target_version: version \"17.2\" is not a semantic version"},
		{"a start that is a word", version("target_version: 17.2.1, start_version: latest"), "spec.agents.start_version: version \"latest\""},
		{"an unknown schedule", version("target_version: 17.2.1, schedule: critical"), `spec.agents.schedule: "critical" is not one of regular, immediate`},
		{"the second document", referenceVersion + "---\n" + config("mode: on"), `document 2: line 16: spec.agents.mode: "on"`},
		{"JSON that ends early", `{"kind": "autoupdate_config"`, "read JSON near byte 28: unexpected EOF"},
		{"JSON with a field twice", `{"kind": "autoupdate_config", "kind": "autoupdate_config"}`, "kind: it is there twice"},
		{"JSON with null", `{"kind": "autoupdate_config", "spec": null}`, "spec: it has no value"},
		{"JSON with an unknown field", `{"kind": "autoupdate_config", "spec": {"agents": {"modes": 1}}}`, "spec.agents.modes: unknown field"},
		{"JSON without end", strings.Repeat(`{"a":`, 1000), "nested too deeply"},
		{"JSON with a number in quotes", `{"kind": "autoupdate_config", "spec": {"agents": {"schedules": {"regular": [{"start_hour": "4"}]}}}}`, "regular[0].start_hour: want a whole number"},
		{"a name for the terminal", "kind: autoupdate_config\n\"\\e[2J\": 1", `"\x1b[2J": unknown field`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list, err := Parse([]byte(tc.text))
			if err == nil {
				t.Fatalf("it is taken for %+v", list)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\x1b\x00") {
				t.Errorf("the error is not one to print: %q", err)
			}
		})
	}
}

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

// FuzzParse: whatever is taken can be written and is the same when read again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{referenceConfig, referenceVersion, `{"kind":"autoupdate_version","metadata":{"name":"autoupdate-version"},"spec":{"agents":{"target_version":"v1.2.3"}}}`, "kind: *a", "a: &a [*a]"} {
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
