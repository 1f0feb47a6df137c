package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

// "suspend" and "disable" have a server that cannot use its store stop updates all the same. They end with 1, and say how far
// that goes; "enable" and a dry run do nothing of the kind.
func TestTheModeThatStopsUpdatesNeedsNoStore(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var asked []adminapi.Brake
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/brake" {
			var b adminapi.Brake
			data, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(data, &b); err != nil {
				t.Error(err)
			}
			asked = append(asked, b)
			parts.Reply(w, http.StatusServiceUnavailable, adminapi.Error{Error: "the mode is in force on this server only, not yet written: the disk is full"})
			return
		}
		parts.Reply(w, http.StatusServiceUnavailable, adminapi.Error{Error: "the store is away"})
	})}
	defer server.Close()
	go server.Serve(listener)
	for _, tc := range []struct {
		args []string
		says string
		mode string
	}{
		{[]string{"suspend", "--reason", "it breaks hosts"}, "in force on this server only, not yet written", "suspended"},
		{[]string{"disable", "--reason", "it breaks hosts"}, "in force on this server only, not yet written", "disabled"},
		{[]string{"suspend", "--dry-run"}, "the store is away", ""},
		{[]string{"enable"}, "the store is away", ""},
	} {
		asked = nil
		cmd := exec.Command(binary(t), append(tc.args, "--admin-socket", socket)...)
		var out buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(out.String(), tc.says) {
			t.Errorf("%v: %d\n%s", tc.args, code, out.String())
		}
		if tc.mode == "" && len(asked) > 0 || tc.mode != "" && (len(asked) != 1 || string(asked[0].Mode) != tc.mode || asked[0].Reason != "it breaks hosts") {
			t.Errorf("%v: the server was asked for %+v", tc.args, asked)
		}
	}
}
