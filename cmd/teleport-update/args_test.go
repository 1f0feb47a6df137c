package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestHelpAndVersionInEverySpelling(t *testing.T) {
	says := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{appName}, args...), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, %s", args, code, stderr.String())
		}
		return stdout.String()
	}
	for _, same := range [][2]string{{"--help", "help"}, {"-h", "help"}, {"enable --help", "help enable"}, {"switch --help", "help switch"}, {"--version", "version"}} {
		one, other := says(strings.Fields(same[0])...), says(strings.Fields(same[1])...)
		if one == "" || one != other {
			t.Errorf("%s prints\n%s\nand %s\n%s", same[0], one, same[1], other)
		}
	}
}

func TestAFlagIsNamedAsItWasTyped(t *testing.T) {
	for args, want := range map[string]string{
		"-p":                     "there is no flag -p;",
		"--p":                    "there is no flag --p;",
		"enable -p foo":          "there is no flag -p;",
		"enable --p=foo":         "there is no flag --p;",
		"enable -proxy":          "a value is missing for -proxy;",
		"help upgrade":           `there is no command "upgrade"`,
		"help enable disable":    "help takes one command",
		"history --format yaml":  "is none of json, text",
		"status --format yaml":   "is none of json, text, openmetrics",
		"version --format plain": "neither json nor text",
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{appName}, strings.Fields(args)...), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %q; want %q", args, code, stderr.String(), want)
		}
	}
}

// Nothing is written where there is nothing to turn off.
func TestNothingIsTurnedOffOnABareHost(t *testing.T) {
	for command, want := range map[string]struct {
		code int
		says string
	}{
		"unpin":     {0, "never enabled on this host"},
		"disable":   {0, "never enabled on this host"},
		"pin 1.0.0": {1, "there is no active version to pin; nothing was changed"},
		"rollback":  {1, "nothing was changed"},
	} {
		dir := t.TempDir()
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{appName, "--data-dir", dir}, strings.Fields(command)...), &stdout, &stderr)
		if left, err := os.ReadDir(dir); code != want.code || err != nil || len(left) > 0 || !strings.Contains(stderr.String(), want.says) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d, leaves %v: %s", command, code, left, stderr.String())
		}
	}
}

// A pipe gets JSON, and so does whoever names it.
func TestStatusIsJSONInAPipe(t *testing.T) {
	status := func(args ...string) string {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{appName, "--data-dir", t.TempDir(), "status", "--offline"}, args...), &stdout, &stderr); code != 0 {
			t.Fatalf("exit code %d, %s", code, stderr.String())
		}
		return stdout.String()
	}
	isJSON := func(s string) bool { return strings.HasPrefix(s, "{\n") && strings.Contains(s, `"schema_version": 1`) }
	if s := status(); !isJSON(s) {
		t.Errorf("in a pipe it prints\n%s", s)
	}
	t.Setenv("TELEPORT_UPDATE_FORMAT", "text")
	if s := status(); !strings.HasPrefix(s, "State:") {
		t.Errorf("with the variable it prints\n%s", s)
	}
	if s := status("--format", "json"); !isJSON(s) {
		t.Errorf("with flag and variable it prints\n%s", s)
	}
	if s := status("--format", "openmetrics"); !strings.HasSuffix(s, "# EOF\n") {
		t.Errorf("as metrics it prints\n%s", s)
	}
}

// Signed addresses hold commas. Were it cut there, the rest would be a template
// of its own, and wrong.
func TestATemplateMayHoldAComma(t *testing.T) {
	dir := t.TempDir()
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"teleport-update", "--data-dir", dir, "--link-dir", dir, "--unit-dir", dir, "--agent-config", dir + "/teleport.yaml",
		"enable", "--proxy", "http://127.0.0.1:1", "--template", "https://cdn.example/{{.Version}}?fields=a,b"}, &bytes.Buffer{}, &stderr)
	if code != 1 || strings.Contains(stderr.String(), "template") {
		t.Errorf("exit code %d, not that of a proxy which does not answer:\n%s", code, stderr.String())
	}
}
