package rollout

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

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
		{"another kind", "kind: cluster_maintenance_config", `kind: "cluster_maintenance_config" is not one of autoupdate_config, autoupdate_version`},
		{"not YAML", "kind: [", "did not find expected node content"},
		{"another name", strings.Replace(config(""), "autoupdate-config", "mine", 1), "metadata.name: mine is not autoupdate-config"},
		{"another version of the format", "version: v2\n" + config(""), "version: v2 is not v1"},
		{"a misspelt field at the top", "specs: {}\n" + config(""), "line 1: specs: unknown field (there are kind, version, metadata, spec)"},
		{"a misspelt field deep inside", group("name: b, start_hours: 2"), "line 4: " + second + ".start_hours: unknown field (there are name, days, start_hour, wait_hours, canary_count, jitter_seconds, timeout_seconds, failure_seconds, max_in_flight, max_timeout_before_halt, max_failed_before_halt, requires)"},
		{"a field in capitals", config("Mode: enabled"), "spec.agents.Mode: unknown field"},
		{"a field of another schedule", config("schedules: {immediate: {days: []}}"), "spec.agents.schedules.immediate.days: unknown field (there are jitter_seconds)"},
		{"a schedule that there is not", config("schedules: {urgent: []}"), "spec.agents.schedules.urgent: unknown field (there are regular, critical, immediate)"},
		{"a field twice", config("mode: enabled, mode: disabled"), "line 4: spec.agents.mode: it appears twice"},
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
		{"a day that is none", group("name: b, start_hour: 2, days: [Mon, Tues]"), second + `.days[1]: "Tues" is not one of Mon, Tue`},
		{"a day twice, once in full", group("name: b, start_hour: 2, days: [Mon, monday]"), second + ".days[1]: Mon appears twice"},
		{"a day twice", group("name: b, start_hour: 2, days: [Mon, Mon]"), second + ".days[1]: Mon appears twice"},
		{"a day that is no list", group("name: b, start_hour: 2, days: Mon"), second + ".days: want a list"},
		{"a negative wait", group("name: b, start_hour: 2, wait_hours: -1"), second + ".wait_hours: -1 is not between"},
		{"a wait of more than a week", group("name: b, start_hour: 2, wait_hours: 169"), second + ".wait_hours: 169 is not between"},
		{"six canaries", group("name: b, start_hour: 2, canary_count: 6"), second + ".canary_count: 6 is not between"},
		{"a wait under time-based", config("strategy: time-based, schedules: {regular: [{name: a, start_hour: 1, wait_hours: 1}]}"), "regular[0].wait_hours: it is for the strategy halt-on-error only"},
		{"canaries under time-based", config("strategy: time-based, schedules: {regular: [{name: a, start_hour: 1, canary_count: 1}]}"), "regular[0].canary_count: it is for the strategy halt-on-error only"},
		{"requires under time-based", config("strategy: time-based, schedules: {regular: [{name: a, start_hour: 1}, {name: b, start_hour: 1, requires: [a]}]}"), second + ".requires: it is for the strategy halt-on-error only"},
		{"a required group that there is not", group("name: b, start_hour: 2, requires: [a, c]"), second + ".requires[1]: there is no group c in this schedule"},
		{"a required group of another schedule", config("schedules: {regular: [{name: a, start_hour: 1}], critical: [{name: b, start_hour: 1, requires: [a]}]}"), "spec.agents.schedules.critical[0].requires[0]: there is no group a"},
		{"a group that requires itself", group("name: b, start_hour: 2, requires: [b]"), second + ".requires[0]: b requires itself"},
		{"a group that requires another twice", group("name: b, start_hour: 2, requires: [a, a]"), second + ".requires[1]: a appears twice"},
		{"groups that require one another", config("schedules: {regular: [{name: z, start_hour: 1}, {name: a, start_hour: 1, requires: [c]}, {name: b, start_hour: 1, requires: [a]}, {name: c, start_hour: 1, requires: [z, b]}]}"), "regular[1].requires: the groups require one another: a → c → b → a"},
		{"a chain of more than a week", config("schedules: {regular: [{name: a, start_hour: 5, days: [Mon]}, {name: b, start_hour: 4, days: [Mon]}]}"), second + ": the chain a → b can take 334 hours from a release at Mon 06:00 UTC to the start of the last group; more than 168, a week, is too long"},
		{"a chain of more than a week, critical", config("schedules: {critical: [{name: a, start_hour: 5}, {name: b, start_hour: 4, wait_hours: 150}]}"), "spec.agents.schedules.critical[1]: the chain a → b can take"},
		{"a jitter of days", group("name: b, start_hour: 2, jitter_seconds: 86401"), second + ".jitter_seconds: 86401 is not between 0 and 86400"},
		{"a jitter of every host", config("schedules: {immediate: {jitter_seconds: -1}}"), "spec.agents.schedules.immediate.jitter_seconds: -1 is not between"},
		{"a short timeout", group("name: b, start_hour: 2, timeout_seconds: 29"), second + ".timeout_seconds: 29 is not between 30 and 86400"},
		{"a failure before it begins", group("name: b, start_hour: 2, failure_seconds: -1"), second + ".failure_seconds: -1 is not between 0 and 86400"},
		{"more than all in flight", group("name: b, start_hour: 2, max_in_flight: 101%"), second + `.max_in_flight: "101%" is neither a number of hosts, such as 5, nor a whole percentage`},
		{"half a percent in flight", group("name: b, start_hour: 2, max_in_flight: 0.5%"), second + ".max_in_flight: "},
		{"a negative number in flight", group("name: b, start_hour: 2, max_in_flight: -1"), second + ".max_in_flight: "},
		{"an endless number in flight", group("name: b, start_hour: 2, max_in_flight: 9999999999"), second + ".max_in_flight: "},
		{"more than all may fail", group("name: b, start_hour: 2, max_failed_before_halt: 101"), second + `.max_failed_before_halt: "101" is not a whole percentage from 0 to 100`},
		{"a timeout limit that is a word", group("name: b, start_hour: 2, max_timeout_before_halt: few"), second + `.max_timeout_before_halt: "few"`},
		{"limits above all hosts", group("name: b, start_hour: 2, max_failed_before_halt: 91"), second + ".max_failed_before_halt: with max_timeout_before_halt it is 101%"},
		{"hosts that are held by another word", config("unmatched: refuse"), `spec.agents.unmatched: "refuse" is not one of last-group, hold`},
		{"a name for the log", group(`start_hour: 2, name: "a\nb"`), second + `.name: "a\nb" is not plain text`},
		{"a name with a blank at its end", group(`start_hour: 2, name: "dev "`), second + `.name: "dev " begins or ends with a blank`},
		{"too many groups", config("schedules: {regular: [" + strings.Repeat("{name: g, start_hour: 1}, ", 300) + "]}"), "there is another group"},
		{"a version without a target", version("start_version: 17.2.0"), "spec.agents.target_version: it is missing"},
		{"a target that is a range", version("target_version: 17.2"), "spec.agents.target_version: version \"17.2\" is not a semantic version"},
		{"a start that is a word", version("target_version: 17.2.1, start_version: latest"), "spec.agents.start_version: version \"latest\""},
		{"an unknown schedule", version("target_version: 17.2.1, schedule: urgent"), `spec.agents.schedule: "urgent" is not one of regular, critical, immediate`},
		{"a switch that is neither on nor off", "kind: cluster_autoupdate_config\nspec: {agent_autoupdate: on}", "spec.agent_autoupdate: want true or false"},
		{"a mode in two spellings", "kind: cluster_autoupdate_config\nspec: {agent_autoupdate: true, agents: {mode: enabled}}", "spec.agent_autoupdate: it is set twice: spec.agents.mode sets it, too"},
		{"schedules in two spellings", "kind: cluster_autoupdate_config\nspec: {agent_group_schedules: {}, agents: {schedules: {regular: [{name: a, start_hour: 1}]}}}", "spec.agents.schedules: they are set twice"},
		{"a version in two spellings", "kind: autoupdate_version\nspec: {agent_version: 1.2.3, agents: {target_version: 1.2.3}}", "spec.agent_version: the version is set twice"},
		{"a group of the RFD with a bad hour", "kind: cluster_autoupdate_config\nspec: {agent_group_schedules: {critical: [{name: a, start_hour: 24}]}}", "spec.agent_group_schedules.critical[0].start_hour: 24 is not an hour"},
		{"a default of the RFD with a bad hour", "kind: cluster_autoupdate_config\nspec: {agent_group_schedules: {regular: [{name: a}]}, agent_default_schedules: {regular: {start_hour: 24}}}", "spec.agent_default_schedules.regular.start_hour: 24 is not an hour"},
		{"a default beside a group default", "kind: cluster_autoupdate_config\nspec: {agent_group_schedules: {regular: [{name: default}]}, agent_default_schedules: {regular: {start_hour: 2}}}", "spec.agent_default_schedules.regular.name: there is another group default"},
		{"a default with groups", "kind: cluster_autoupdate_config\nspec: {agent_default_schedules: {regular: {requires: [a]}}}", "spec.agent_default_schedules.regular.requires: unknown field (there are days, start_hour, jitter_seconds)"},
		{"the second document", referenceVersion + "---\n" + config("mode: on"), `document 2: line 16: spec.agents.mode: "on"`},
		{"JSON that ends early", `{"kind": "autoupdate_config"`, "read JSON near byte 28: unexpected EOF"},
		{"JSON with a field twice", `{"kind": "autoupdate_config", "kind": "autoupdate_config"}`, "kind: it appears twice"},
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
			if len(err.Error()) > 1100 || strings.ContainsAny(err.Error(), "\x1b\x00") {
				t.Errorf("the error is not one to print: %q", err)
			}
		})
	}
}

func TestAChainOfAWeekIsTaken(t *testing.T) {
	for name, groups := range map[string]string{
		"one group a week":                   "{name: a, start_hour: 5, days: [Mon]}",
		"a chain of a week to the hour":      "{name: a, start_hour: 5, days: [Mon]}, {name: b, start_hour: 6, days: [Mon]}",
		"the chain of the reference":         "{name: dev, start_hour: 16}, {name: stage, start_hour: 18}, {name: prod, start_hour: 20, wait_hours: 24}",
		"the canaries of the reference":      "{name: stage, start_hour: 18, canary_count: 5}, {name: prod, start_hour: 20, wait_hours: 24, canary_count: 5}",
		"many groups that require the first": "{name: a, start_hour: 5}" + strings.Repeat(", {name: GROUP, start_hour: 4, requires: [a]}", 200),
		"groups of every day and one hour":   "{name: a, start_hour: 5, days: ['*']}, {name: b, start_hour: 5, days: ['*']}, {name: c, start_hour: 5, days: ['*']}",
	} {
		for i := range 200 {
			groups = strings.Replace(groups, "GROUP", fmt.Sprint("g", i), 1)
		}
		if _, err := Parse([]byte("kind: autoupdate_config\nmetadata: {name: autoupdate-config}\nspec: {agents: {schedules: {regular: [" + groups + "]}}}")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

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

// What the configuration allows fits into the store as a rollout, whatever its hosts
// are called.
func TestTheLargestRolloutFitsIntoTheStore(t *testing.T) {
	c := configWith(Enabled)
	for i := range maxGroups {
		g := Group{Name: fmt.Sprintf("%0100d", i), StartHour: hour(1), CanaryCount: maxCanaries, Requires: []string{fmt.Sprintf("%0100d", 0)}}
		if i == 0 {
			g.Requires = nil
		}
		c.Spec.Agents.Schedules.Regular = append(c.Spec.Agents.Schedules.Regular, g)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	r := NewRollout(c, versionWith(Enabled, Regular), time.Now())
	for i := range r.Status.Groups {
		g := &r.Status.Groups[i]
		g.StartTime, g.DoneTime, g.WindowEnd = time.Now(), time.Now(), time.Now()
		g.Halted = &Halted{Reason: HostsTimedOut, Message: strings.Repeat("m", maxProblems*(maxMessage+300))}
		for range maxCanaries {
			g.Canaries = append(g.Canaries, Canary{UpdaterID: strings.Repeat("u", 36), HostID: strings.Repeat("h", 36), Hostname: strings.Repeat("n", 63)})
		}
	}
	data, err := JSON(r)
	if err != nil || len(data) > 1<<20 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	c.Spec.Agents.Schedules.Regular = append(c.Spec.Agents.Schedules.Regular, Group{Name: "more", StartHour: hour(1)})
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "regular[256]: there are more than 256 groups") {
		t.Errorf("got %v", err)
	}
	c.Spec.Agents.Schedules.Regular = nil
	for i := range maxGroups {
		c.Spec.Agents.Schedules.Regular = append(c.Spec.Agents.Schedules.Regular, Group{Name: fmt.Sprintf("%0200d", i), StartHour: hour(1), Requires: []string{fmt.Sprintf("%0200d", max(i-1, 0))}})
	}
	c.Spec.Agents.Schedules.Regular[0].Requires = nil
	for i := range c.Spec.Agents.Schedules.Regular {
		for j := range min(i, 2) {
			c.Spec.Agents.Schedules.Regular[i].Requires = append(c.Spec.Agents.Schedules.Regular[i].Requires, c.Spec.Agents.Schedules.Regular[max(0, i-2-j)].Name)
		}
	}
	if err := c.Check(); err == nil {
		t.Error("a configuration of any size is taken")
	}
}
