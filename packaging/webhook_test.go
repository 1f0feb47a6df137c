package packaging

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example of a hook is a program that works: with curl and with wget alike.
func TestTheWebhookTellsAServer(t *testing.T) {
	script, err := filepath.Abs("teleport-update/examples/webhook.sh")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = nil
		if r.Method != http.MethodPost || r.URL.RequestURI() != "/hook?token=s3cret" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("the server is asked for %s %s as %s", r.Method, r.URL, r.Header.Get("Content-Type"))
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	host, err := exec.Command("uname", "-n").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"host": strings.TrimSpace(string(host)), "outcome": "rolled_back",
		"from": "1.0.0", "from_edition": "oss", "to": "1.1.0", "to_edition": "oss",
		"cause": "update", "by": "", "reason": "it said \"no\" \\ and\nended: $(id) `id` ünd\n 'so'", "time": "2026-03-01T12:00:00Z",
	}
	for _, client := range []string{"curl", "wget"} {
		t.Run(client, func(t *testing.T) {
			h := newHook(t, client, server.URL+"/hook?token=s3cret\n")
			status = http.StatusNoContent
			if err := h.run(t, script, want); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(got, want) {
				t.Errorf("the server was told\n%q; want\n%q", got, want)
			}
			if args, err := os.ReadFile(h.arguments); err != nil || strings.Contains(string(args), "s3cret") {
				t.Errorf("everybody on the host can read the URL: %v\n%s", err, args)
			}
			status = http.StatusInternalServerError
			if err := h.run(t, script, want); err == nil {
				t.Error("a server that fails is no failure of the hook")
			}
		})
	}
}

// hook is what a run of the script finds: a folder of programs with one client, which
// notes its arguments, and a file with the URL.
type hook struct{ bin, arguments, url string }

func newHook(t *testing.T, client, url string) hook {
	t.Helper()
	real, err := exec.LookPath(client)
	if err != nil {
		t.Skip(err)
	}
	bin := t.TempDir()
	h := hook{bin, filepath.Join(bin, "arguments"), filepath.Join(bin, "url")}
	for _, tool := range []string{"sh", "cat", "sed", "tr", "uname"} {
		path, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(path, filepath.Join(bin, tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$@\" >%s\nexec %s \"$@\"\n", h.arguments, real)
	if err := os.WriteFile(filepath.Join(bin, client), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.url, []byte(url), 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h hook) run(t *testing.T, script string, values map[string]string) error {
	cmd := exec.CommandContext(t.Context(), script)
	cmd.Env = []string{"PATH=" + h.bin, "WEBHOOK_URL_FILE=" + h.url}
	for name, value := range values {
		cmd.Env = append(cmd.Env, "TELEPORT_UPDATE_HOOK_"+strings.ToUpper(name)+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return err
}
