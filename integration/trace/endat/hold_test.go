package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/integration/trace"
)

// A program is held when its journal comes to a phase: what the script does is there
// before the program's next step.
func TestAProgramIsHeldWhileAScriptRuns(t *testing.T) {
	dir := t.TempDir()
	const program = `enter() { echo "{\"phase\": \"$1\"}" >new; mv new journal.json; [ ! -e done ] || echo "$1 $(cat done)"; }
		enter begun; enter switched; enter proven`
	var h holds
	if err := h.Set("phase:switched=echo $PROGRAM >" + filepath.Join(dir, "done")); err != nil {
		t.Fatal(err)
	}
	var held []string
	r, err := trace.Run(t.Context(), trace.Command{Argv: []string{"/bin/sh", "-ec", program}, Dir: dir}, func(c trace.Call) trace.Action {
		moment, err := h.at(c)
		if err != nil {
			t.Error(err)
		}
		if moment != "" {
			held = append(held, moment)
		}
		return trace.GoOn()
	})
	if err != nil || r.ExitCode != 0 {
		t.Fatalf("%v, exit code %d\n%s", err, r.ExitCode, r.Stderr)
	}
	if len(held) != 1 || held[0] != "phase:switched" || len(h) != 0 {
		t.Errorf("held at %v; %d are left", held, len(h))
	}
	lines := strings.Split(strings.TrimSpace(string(r.Stdout)), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "switched ") || !strings.HasPrefix(lines[1], "proven ") {
		t.Errorf("the program saw %q", lines)
	}
	if pid, err := os.ReadFile(filepath.Join(dir, "done")); err != nil || strings.TrimSpace(string(pid)) == "0" {
		t.Errorf("the script was told of process %q (%v)", pid, err)
	}
}

func TestAMomentThatCannotBeMeantIsRefused(t *testing.T) {
	for _, text := range []string{"", "phase:begun", "begun=true", "call:3=true"} {
		if err := new(holds).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
