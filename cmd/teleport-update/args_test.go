package main

import (
	"bytes"
	"strings"
	"testing"
)

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
