package answers

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find"
	"teleport-update/internal/version"
)

func TestParseGroups(t *testing.T) {
	base := find.Answer{Version: "15.1.1", Edition: version.Enterprise, AutoUpdate: true, Jitter: time.Minute}
	for _, tc := range []struct {
		name, file string
		want       find.Answer // of group g, over base
	}{
		{"no groups", `{}`, base},
		{"another group", `x: {agent_version: 16.0.0}`, base},
		{"a group with nothing to say", `g: {}`, base},
		{"everything", "g:\n  agent_version: v16.0.0\n  edition: oss\n  autoupdate: false\n  jitter: 90s\n",
			find.Answer{Version: "16.0.0", Edition: version.OSS, AutoUpdate: false, Jitter: 90 * time.Second}},
		{"one thing", "# note\n---\ng: {autoupdate: no}", find.Answer{Version: "15.1.1", Edition: version.Enterprise, AutoUpdate: false, Jitter: time.Minute}},
		{"jitter in seconds", `g: {jitter: 10}`, find.Answer{Version: "15.1.1", Edition: version.Enterprise, AutoUpdate: true, Jitter: 10 * time.Second}},
		{"no version", `g: {agent_version: ""}`, find.Answer{Edition: version.Enterprise, AutoUpdate: true, Jitter: time.Minute}},
		{"an alias", "x: &x {agent_version: 16.0.0}\ng: *x", find.Answer{Version: "16.0.0", Edition: version.Enterprise, AutoUpdate: true, Jitter: time.Minute}},
		{"JSON", `{"g": {"agent_version": "16.0.0", "autoupdate": true}}`, find.Answer{Version: "16.0.0", Edition: version.Enterprise, AutoUpdate: true, Jitter: time.Minute}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			groups, err := parseGroups([]byte(tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if got := groups["g"].apply(base); got != tc.want {
				t.Errorf("got %+v; want %+v", got, tc.want)
			}
		})
	}
}

func TestParseGroupsRefuses(t *testing.T) {
	for _, tc := range []struct{ name, file, want string }{
		{"nothing", ``, "empty"},
		{"only a comment", "# all gone\n", "empty"},
		{"null", `~`, "line 1: want a mapping of group names"},
		{"a list", "- g\n", "line 1: want a mapping of group names"},
		{"broken YAML", "g: {", "yaml: line 1"},
		{"two documents", "g: {}\n---\nh: {}\n", "more than one document"},
		{"garbage after the document", "g: {}\n...\n}", "more than one document"},
		{"a group twice", "g: {}\nh: {}\ng: {}\n", `line 3: "g" appears twice`},
		{"a group without a name", `"": {}`, "without a name"},
		{"a group that is a version", "g: 15.1.1", `group "g": line 1: want a mapping of settings`},
		{"a group without settings", "g:\nh: {}", `group "g": line 1: want a mapping`},
		{"an unknown field", "g:\n  agent_version: 15.1.1\n  auto_update: true\n", `group "g": line 3: unknown field "auto_update" (there are agent_version,`},
		{"a name of other letters", "g: {Edition: oss}", `unknown field "Edition"`},
		{"a field twice", "g:\n  jitter: 1\n  jitter: 2\n", `line 3: "jitter" appears twice`},
		{"a field without a value", "g:\n  agent_version:\n", "line 2: agent_version has no value"},
		{"a field with two", "g: {edition: [oss]}", "edition is not a single value"},
		{"a merge", "x: &x {jitter: 1}\ng: {<<: *x}", `"<<"`},
		{"an alias of what holds it", "g: &g {jitter: *g}", "not a single value"},
		{"a version cut short", "g: {agent_version: 15.1}", "semantic"},
		{"an edition of the other shape", "g: {edition: ent}", `edition "ent"`},
		{"neither true nor false", "g: {autoupdate: maybe}", `autoupdate "maybe"`},
		{"a number for a flag", "g: {autoupdate: 1}", `autoupdate "1"`},
		{"negative jitter", "g: {jitter: -1}", "jitter"},
		{"endless jitter", "g: {jitter: 25h}", "jitter"},
		{"part of a second", "g: {jitter: 500ms}", "jitter"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			groups, err := parseGroups([]byte(tc.file))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v, %v; want an error with %q", groups, err, tc.want)
			}
		})
	}
}

func TestParseJitter(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want time.Duration // -1: refused
	}{
		{"0", 0}, {"10", 10 * time.Second}, {"10s", 10 * time.Second}, {"1m30s", 90 * time.Second}, {"24h", 24 * time.Hour},
		{"", -1}, {"x", -1}, {"-1", -1}, {"-1s", -1}, {"1.5s", -1}, {"86401", -1}, {"2147483647", -1}, {"9999999999999", -1},
	} {
		got, err := ParseJitter(tc.in)
		if (err == nil) != (tc.want >= 0) || err == nil && got != tc.want {
			t.Errorf("ParseJitter(%q) = %v, %v; want %v", tc.in, got, err, tc.want)
		}
	}
}
