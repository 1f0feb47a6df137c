package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"teleport-update/find/server/adminapi"
)

// Only a server that is built for tests has a clock that can be set: the shipped one does not even know the name of
// the variable.
func TestNothingSetsTheClockOfTheShippedServer(t *testing.T) {
	const variable = "FLEET_CLOCK"
	for path, want := range map[string]bool{binary(t): false, filepath.Join("..", "..", "integration", "fleet", "clock.go.txt"): true} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if has := bytes.Contains(data, []byte(variable)); has != want {
			t.Errorf("%s in %s: %t", variable, path, has)
		}
	}
	if out, err := exec.Command(binary(t), "serve", "--help").CombinedOutput(); err != nil {
		t.Errorf("serve --help: %v", err)
	} else if found := regexp.MustCompile(`(?i)--([a-z-]*-)?(clock|time|now|date)\b|\$[A-Z_]*_(CLOCK|TIME|NOW|DATE)\b`).Find(out); found != nil {
		t.Errorf("serve has the flag or the variable %s", found)
	}
	a := &adminRun{t: t, dir: t.TempDir()}
	file := filepath.Join(a.dir, "clock")
	write(t, file, "2001-01-01T00:00:00Z")
	s := serveProcess(t, []string{variable + "=" + file}, "--listen", "127.0.0.1:0", "--store", filepath.Join(a.dir, "store", "store.db"), "--admin-socket", a.socket())
	var seen adminapi.Overview
	s.until("the engine looks", func() bool {
		code, out := a.run("", "status", "-o", "json")
		return code == 0 && json.Unmarshal([]byte(out), &seen) == nil && !seen.Server.LastTick.IsZero()
	})
	if off := time.Since(seen.Server.LastTick).Abs(); off > time.Hour {
		t.Errorf("the clock of the server is off by %s", off)
	}
}
