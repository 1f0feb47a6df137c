//go:build hosts

package operator

import (
	"strings"
	"testing"

	"teleport-update/integration/cluster"
	"teleport-update/integration/scenes"
)

// Wrong usage ends with 2 before anything was looked at, let alone changed.

// badTemplates are wrong on a command line and in updates.yaml.
var badTemplates = []struct{ name, template, says string }{
	{"template empty", "", "it is empty"},
	{"template with an unknown field", "https://cdn.example/teleport-{{.Release}}.tar.gz", ".Release is not known"},
	{"template that does not parse", "https://cdn.example/teleport-{{.Version.tar.gz", "unclosed action"},
	{"template with a loop", "https://cdn.example/{{range 9}}x{{end}}", "only values"},
	{"template over plain http", "http://cdn.example/teleport-{{.Version}}.tar.gz", "use https"},
	{"template over ftp", "ftp://cdn.example/teleport-{{.Version}}.tar.gz", "must be https"},
	{"template without a scheme", "cdn.example/teleport-{{.Version}}.tar.gz", "must be https"},
	{"template that names no file", "https://{{.Edition}}.example/", "names no file"},
	{"template that becomes endless", `https://cdn.example/{{printf "%9999s" .Version}}`, "longer than"},
	{"template with a relative file", "file:teleport-{{.Version}}.tar.gz", "absolute path"},
	{"template with a file on another host", "file://nas/teleport-{{.Version}}.tar.gz", "absolute path"},
}

func TestWrongUsageIsToldFromFailure(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0")
	s.RunsOn("1.0.0")
	before := s.Look()

	type usage struct {
		name string
		args []string
		says string
	}
	enable := func(more ...string) []string {
		return append([]string{"enable", "--proxy", cluster.ProxyAddress}, more...)
	}
	cases := []usage{
		{"no such command", []string{"upgrade"}, `"upgrade"`},
		{"no such flag", []string{"update", "--force"}, "there is no flag --force"},
		{"no such global flag", []string{"--data", "/srv", "status"}, "there is no flag --data"},
		{"an argument too many", []string{"update", "1.1.0"}, `"1.1.0"`},
		{"an argument for disable", []string{"disable", "now"}, `"now"`},
		{"two versions to pin", []string{"pin", "1.0.0", "1.1.0"}, "one version"},
		{"pin what is no version", []string{"pin", "latest"}, `"latest"`},
		{"pin a path", []string{"pin", "../../etc"}, `"../../etc"`},
		{"roll back to what is no version", []string{"rollback", "1.0"}, `"1.0"`},
		{"a duration without a unit", enable("--health-window", "30"), "health-window"},
		{"a duration that is none", enable("--health-window", "soon"), "health-window"},
		{"a negative duration", enable("--health-window", "-30s"), "negative"},
		{"a flag without its value", enable("--template"), "template"},
		{"a relative data folder", []string{"--data-dir", "teleport", "status"}, "not an absolute path"},
		{"an empty link folder", []string{"--link-dir", "", "status"}, "not an absolute path"},
		{"a log format that is none", []string{"--log-format", "xml", "status"}, `"xml"`},
		{"a status format that is none", []string{"status", "--format", "yaml"}, `"yaml"`},
		{"a proxy over plain http", []string{"enable", "--proxy", "http://proxy.example"}, "use https"},
		{"a proxy with a path", []string{"enable", "--proxy", "https://proxy.example/web"}, "must not contain a path"},
		{"a proxy with a password", []string{"enable", "--proxy", "https://ann:planted@proxy.example"}, "a user name or a password"},
		{"a port that is none", []string{"enable", "--proxy", "proxy.example:https"}, "port"},
		{"a ready URL that is none", enable("--ready-url", "localhost:3000"), "ready-url"},
	}
	for _, tc := range badTemplates {
		cases = append(cases, usage{tc.name, enable("--template", cluster.TemplateURL, "--template", tc.template), tc.says})
	}
	for _, tc := range cases {
		r := s.Try(append([]string{updater}, tc.args...)...)
		if r.Code != 2 || strings.Count(r.Stderr, "\n") != 1 || !strings.Contains(r.Stderr, tc.says) || r.Stdout != "" {
			t.Errorf("%s: exit code %d; want 2, and one line with %q:\n%s%s", tc.name, r.Code, tc.says, r.Stdout, r.Stderr)
		}
		if strings.Contains(r.Stderr, "planted") {
			t.Errorf("%s: the password is repeated:\n%s", tc.name, r.Stderr)
		}
		for _, p := range scenes.Unclear(r.Stderr) {
			t.Errorf("%s: %s:\n%s", tc.name, p, r.Stderr)
		}
		t.Logf("%s:\n\t%s", tc.name, r.Stderr)
	}
	s.Same("wrong usage", before)
}

// A person's slip in updates.yaml is found by the next run, not half way
// through an update.
func TestAConfigurationThatCannotBeMeantChangesNothing(t *testing.T) {
	s := newScene(t)
	s.Sound("1.0.0", "1.1.0")
	s.Write("/root/ca.pem", "")
	s.RunsOn("1.0.0")
	s.Wants("1.1.0")
	sound := s.Read(store + "/updates.yaml")
	replace := func(old, new string) string {
		if !strings.Contains(sound, old) {
			t.Fatalf("there is no %q in:\n%s", old, sound)
		}
		return strings.Replace(sound, old, new, 1)
	}
	for _, tc := range []struct{ name, text, says string }{
		{"not YAML", "spec: [", "updates.yaml"},
		{"another kind", replace("agent_versions", "agent_release"), "agent_release"},
		{"another version", replace("version: v1", "version: v9"), "v9"},
		{"active version a path", replace("active_version: 1.0.0", "active_version: ../../../tmp"), "active_version"},
		{"window that is none", replace("window: 4s", "window: soon"), "soon"},
		{"enabled that is neither", replace("enabled: true", "enabled: perhaps"), "perhaps"},
		{"proxy with a path", replace(cluster.ProxyAddress, "proxy.example/web"), "must not contain a path"},
		{"no proxy", replace(cluster.ProxyAddress, `""`), "no proxy address is known"},
		{"CA file missing", replace("  health:", "  ca_file: /root/none.pem\n  health:"), "/root/none.pem"},
		{"CA file without a certificate", replace("  health:", "  ca_file: /root/ca.pem\n  health:"), "holds no PEM certificate"},
		{"template with an unknown field", replace("{{.OS}}", "{{.System}}"), ".System is not known"},
		{"template over plain http", replace(cluster.ProxyAddress+"/releases", "http://cdn.example"), "use https"},
	} {
		s.Configure(tc.text)
		s.Refused(tc.name, []string{tc.says}, updater, "update")
		s.Configure(sound)
	}
	for _, tc := range []struct{ name, flag, value, says string }{
		{"enable: CA file missing", "--ca-file", "/root/none.pem", "/root/none.pem"},
		{"enable: CA file without a certificate", "--ca-file", "/root/ca.pem", "holds no PEM certificate"},
	} {
		s.Refused(tc.name, []string{tc.says, "the agent stays on version 1.0.0"}, updater, "enable", tc.flag, tc.value)
	}
}
