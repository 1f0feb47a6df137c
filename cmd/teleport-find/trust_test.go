package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/sharedbuffer"
)

// What does not trust a server names the flag of its own that would.
func TestErrorsOfTLSNameTheFlagsOfThisProgram(t *testing.T) {
	private := httptest.NewTLSServer(http.NotFoundHandler())
	defer private.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a-token-of-enough-letters"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, args := range map[string][]string{
		"--server-ca-file": {"--server", private.URL, "--access-token-file", token, "status"},
		"--ca-file":        {"mirror", "--to", t.TempDir(), "--template", private.URL + "/teleport-v{{.Version}}-{{.OS}}-{{.Arch}}-bin.tar.gz", "15.1.1"},
	} {
		var out sharedbuffer.Buffer
		cmd := exec.Command(binary(t), args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Run()
		code, stderr := cmd.ProcessState.ExitCode(), out.String()
		if code != 1 || !strings.Contains(stderr, "teleport-find") || !strings.Contains(stderr, flag+" FILE`") || strings.Contains(stderr, "teleport-update enable") {
			t.Errorf("%v: %d\n%s", args, code, stderr)
		}
	}
}
