package server

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"teleport-update/find/rollout"
	"teleport-update/find/server/admin"
	"teleport-update/find/server/adminapi"
)

// Each of these is refused with a clear error of one line, takes no memory that stays, and changes nothing: neither
// the store nor what hosts are told.
func TestHostileResourcesChangeNothing(t *testing.T) {
	w := newStoreWorld(t)
	w.write(enabledGroups("{name: dev, days: ['*'], start_hour: 12}"))
	w.write(scheduled)
	stored := w.open()
	a := newAdminSocket(t, admin.Options{Stored: stored, Store: w.store, Log: w.options.Log})
	config := func(agents string) string {
		return "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: enabled, " + agents + "}}"
	}
	group := func(g string) string {
		return config("schedules: {regular: [{name: dev, days: ['*'], start_hour: 12}, {" + g + "}]}")
	}
	timeBased := func(g string) string {
		return config("strategy: time-based, schedules: {regular: [{name: dev, start_hour: 12, " + g + "}]}")
	}
	version := func(agents string) string {
		return "kind: autoupdate_version\nmetadata: {name: autoupdate-version}\nspec: {agents: {" + agents + "}}"
	}
	var many, chain []string
	for i := range 20_000 {
		many = append(many, fmt.Sprintf("{name: g%d, start_hour: 1}", i))
	}
	for i := range 9 {
		chain = append(chain, fmt.Sprintf("{name: g%d, days: [Mon], start_hour: 1}", i))
	}
	aliases := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		aliases += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 10), ","))
	}
	cases := map[string]string{
		"nothing":                             "",
		"no text":                             "\x00\x01\x02",
		"half a rune":                         config("strategy: \"\xff\xfe\""),
		"no mapping":                          "- a\n- b",
		"a word":                              "autoupdate_config",
		"aliases that multiply":               aliases + enabled,
		"an alias of itself":                  "kind: autoupdate_config\nmetadata: &m {name: *m}\n",
		"depth":                               strings.Repeat("[", 50_000),
		"depth in a resource":                 config("schedules: " + strings.Repeat("{a: ", 20_000)),
		"an endless word":                     config("strategy: " + strings.Repeat("x", 900_000)),
		"an endless key":                      config(strings.Repeat("x", 900_000) + ": 1"),
		"a key twice":                         config("mode: disabled"),
		"a merge key":                         "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {<<: {agents: {mode: disabled}}}",
		"a tag":                               config("strategy: !!binary aGFsdA=="),
		"a second document of another kind":   enabled + "\n---\nkind: role\nmetadata: {name: admin}\n",
		"a second document that is none":      enabled + "\n---\n[",
		"the same twice":                      enabled + "\n---\n" + suspended,
		"a name of another":                   strings.Replace(enabled, "name: autoupdate-config", "name: other", 1),
		"a path for a name":                   strings.Replace(enabled, "name: autoupdate-config", "name: ../autoupdate-config", 1),
		"a negative revision":                 strings.Replace(enabled, "name: autoupdate-config", "name: autoupdate-config, revision: -1", 1),
		"a revision beyond all":               strings.Replace(enabled, "name: autoupdate-config", "name: autoupdate-config, revision: 99999999999999999999", 1),
		"a revision to come":                  strings.Replace(enabled, "name: autoupdate-config", "name: autoupdate-config, revision: 900", 1),
		"a field of the server's":             enabled + "\nstatus: {state: done}",
		"a rollout":                           `{"kind":"autoupdate_agent_rollout","metadata":{"name":"autoupdate-agent-rollout"},"spec":{"start_version":"1.0.0","target_version":"1.0.0","schedule":"regular","autoupdate_mode":"enabled","strategy":"halt-on-error"},"status":{"state":"done","start_time":"2025-01-01T00:00:00Z"}}`,
		"a report of a server":                `{"kind":"autoupdate_agent_report","metadata":{"name":"find-1"},"spec":{"timestamp":"2025-01-01T00:00:00Z"}}`,
		"a plan":                              `{"kind":"agent_rollout_plan","metadata":{"name":"dev"},"spec":{"host_count":1,"last_active_host_index":1}}`,
		"another API's version":               "version: v9\n" + enabled,
		"a mode in capitals":                  "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: ENABLED}}",
		"a mode that is a number":             "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: 1}}",
		"a list for a mode":                   "kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {mode: [enabled]}}",
		"an unknown field with escapes":       config(`"\e[2J": 1`),
		"an unknown strategy":                 config("strategy: all-at-once"),
		"a window below zero":                 config("strategy: time-based, maintenance_window_duration: -1h"),
		"a window of a year":                  config("strategy: time-based, maintenance_window_duration: 9000h"),
		"a window that never ends":            config("strategy: time-based, maintenance_window_duration: .inf"),
		"groups without end":                  config("schedules: {regular: [" + strings.Join(many, ",") + "]}"),
		"a group that is none":                config("schedules: {regular: [dev]}"),
		"no group at all":                     config("schedules: {regular: [null]}"),
		"an unknown schedule":                 config("schedules: {weekly: []}"),
		"immediate with groups":               config("schedules: {immediate: [{name: dev, start_hour: 1}]}"),
		"a group twice":                       group("name: dev, start_hour: 1"),
		"a group without a name":              group("start_hour: 1"),
		"a name of blanks":                    group("name: ' ', start_hour: 1"),
		"a name with a blank at its end":      group("name: 'dev ', start_hour: 1"),
		"a name with a line":                  group(`name: "a\nb", start_hour: 1`),
		"a name that drives a terminal":       group(`name: "\e[2J", start_hour: 1`),
		"an endless name":                     group("name: " + strings.Repeat("a", 5000) + ", start_hour: 1"),
		"no hour":                             group("name: a"),
		"hour 24":                             group("name: a, start_hour: 24"),
		"hour -1":                             group("name: a, start_hour: -1"),
		"half an hour":                        group("name: a, start_hour: 1.5"),
		"a day that is none":                  group("name: a, start_hour: 1, days: [Someday]"),
		"a number for a day":                  group("name: a, start_hour: 1, days: [1]"),
		"a wait below zero":                   group("name: a, start_hour: 1, wait_hours: -1"),
		"a wait of a year":                    group("name: a, start_hour: 1, wait_hours: 9000"),
		"canaries below zero":                 group("name: a, start_hour: 1, canary_count: -1"),
		"all hosts as canaries":               group("name: a, start_hour: 1, canary_count: 1000000"),
		"in flight below zero":                group("name: a, start_hour: 1, max_in_flight: -1"),
		"in flight above all":                 group("name: a, start_hour: 1, max_in_flight: 101%"),
		"in flight of words":                  group("name: a, start_hour: 1, max_in_flight: many"),
		"failures below zero":                 group("name: a, start_hour: 1, max_failed_before_halt: -5%"),
		"failures above all":                  group("name: a, start_hour: 1, max_failed_before_halt: 101%"),
		"both limits above all":               group("name: a, start_hour: 1, max_failed_before_halt: 60%, max_timeout_before_halt: 60%"),
		"a timeout below zero":                group("name: a, start_hour: 1, timeout_seconds: -1"),
		"a timeout of ages":                   group("name: a, start_hour: 1, timeout_seconds: 99999999999"),
		"a jitter of ages":                    group("name: a, start_hour: 1, jitter_seconds: 99999999999"),
		"a jitter below zero":                 group("name: a, start_hour: 1, jitter_seconds: -1"),
		"itself before it":                    group("name: a, start_hour: 1, requires: [a]"),
		"nobody before it":                    group("name: a, start_hour: 1, requires: [nobody]"),
		"a circle":                            config("schedules: {regular: [{name: a, start_hour: 1, requires: [b]}, {name: b, start_hour: 1, requires: [a]}]}"),
		"a chain of weeks":                    config("schedules: {regular: [" + strings.Join(chain, ",") + "]}"),
		"canaries under time-based":           timeBased("canary_count: 1"),
		"a wait under time-based":             timeBased("wait_hours: 1"),
		"prerequisites under time-based":      timeBased("requires: []}, {name: b, start_hour: 1, requires: [dev]"),
		"no target":                           version("schedule: regular"),
		"a version that is none":              version("target_version: latest"),
		"a version with a path":               version("target_version: 17.2.1/../../etc"),
		"an endless version":                  version("target_version: 17.2.1-" + strings.Repeat("a", 5000)),
		"a version that is a number":          version("target_version: 17.2"),
		"a start that is none":                version("start_version: x, target_version: 17.2.1"),
		"a schedule that is none":             version("target_version: 17.2.1, schedule: now"),
		"a schedule that is a list":           version("target_version: 17.2.1, schedule: [regular]"),
		"a group in a version":                version("target_version: 17.2.1, groups: [dev]"),
		"JSON that goes on":                   `{"kind":"autoupdate_version","metadata":{"name":"autoupdate-version"},"spec":{"agents":{"target_version":"17.2.1"}}} x`,
		"JSON with a field in another letter": `{"Kind":"autoupdate_version","metadata":{"name":"autoupdate-version"},"spec":{"agents":{"target_version":"17.2.1"}}}`,
		"more than is read":                   enabled + strings.Repeat("\n#", admin.MaxResource),
	}
	if len(cases) < 80 { // and 120 reports
		t.Errorf("there are %d cases", len(cases))
	}
	before, was := w.everything(t), stored.AnswerTo(rollout.Query{Group: "dev"})
	runtime.GC()
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	for name, body := range cases {
		status, text := a.do("PUT", "/v1/resources", body)
		var said adminapi.Error
		if err := json.Unmarshal([]byte(text), &said); err != nil || status != 400 && status != 412 && status != 422 {
			t.Errorf("%s: %d %.300s", name, status, text)
		}
		if len(said.Error) < 10 || len(said.Error) > 2000 || strings.ContainsAny(said.Error, "\n\x1b") {
			t.Errorf("%s: the error is %.300q (%d bytes)", name, said.Error, len(said.Error))
		}
		if after := w.everything(t); after != before {
			t.Fatalf("%s has changed the store:\n%s\nand before:\n%s", name, after, before)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&end)
	if grown := int64(end.HeapAlloc) - int64(start.HeapAlloc); grown > 8<<20 {
		t.Errorf("%d bytes of memory stay", grown)
	}
	if got := stored.AnswerTo(rollout.Query{Group: "dev"}); got != was {
		t.Errorf("hosts are told %+v, and before %+v", got, was)
	}
}

// everything is all that is in the store.
func (w *storeWorld) everything(t *testing.T) string {
	t.Helper()
	items, at, err := w.other.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	records, err := w.other.History(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %v %v", at, items, records)
}
