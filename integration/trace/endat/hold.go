package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"teleport-update/integration/trace"
)

// hold is a moment at which the program is held while a script runs: what others do
// to the host while it is at work. The script finds the program's number in PROGRAM.
//
// A moment is phase:NAME, when a journal.json that says so has got its name, or
// message:WORD, when that message was sent.
type hold struct{ kind, word, script string }

// holds are met in their order.
type holds []hold

// String implements flag.Value.
func (h *holds) String() string { return "" }

// Set implements flag.Value.
func (h *holds) Set(text string) error {
	moment, script, ok := strings.Cut(text, "=")
	kind, word, named := strings.Cut(moment, ":")
	if !ok || !named || kind != "phase" && kind != "message" {
		return fmt.Errorf("%q is not phase:NAME=SCRIPT or message:WORD=SCRIPT", text)
	}
	*h = append(*h, hold{kind, word, script})
	return nil
}

// at runs the script of the next hold if this call is its moment, and names it.
func (h *holds) at(c trace.Call) (moment string, err error) {
	if len(*h) == 0 || !c.Exit || c.Errno != 0 {
		return "", nil
	}
	next := (*h)[0]
	if next.kind == "message" && c.To != next.word || next.kind == "phase" && !entered(c.To, next.word) {
		return "", nil
	}
	moment = next.kind + ":" + next.word
	*h = (*h)[1:]
	cmd := exec.Command("sh", "-ec", next.script)
	cmd.Env = append(os.Environ(), fmt.Sprintf("PROGRAM=%d", processOf(c.TID)))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("the script at %s: %w\n%s", moment, err, said.String())
	}
	return moment, nil
}

// entered reports whether a file is a journal that has just come to a phase.
func entered(path, phase string) bool {
	if filepath.Base(path) != "journal.json" {
		return false
	}
	data, err := os.ReadFile(path)
	var j struct{ Phase string }
	return err == nil && json.Unmarshal(data, &j) == nil && j.Phase == phase
}

// processOf is the number of a thread's process.
func processOf(tid int) (pid int) {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "Tgid:"); ok {
			fmt.Sscan(text, &pid)
		}
	}
	return pid
}
