package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"teleport-update/internal/golden"
)

func TestTheHelpOfEachCommandKeepsItsForm(t *testing.T) {
	said := func(command ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(append(append([]string{"teleport-find"}, command...), "--help"), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, %s", command, code, stderr.String())
		}
		return stdout.String()
	}
	help := func(file string, command ...string) string {
		t.Helper()
		text := said(command...)
		golden.File(t, filepath.Join("testdata", "help", file), text)
		return text
	}
	_, commands, _ := strings.Cut(help("all.txt"), "COMMANDS:\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	files := []string{"all.txt"}
	for line := range strings.Lines(commands) {
		name := strings.TrimSuffix(strings.Fields(line)[0], ",") // others are its aliases
		files = append(files, name+".txt")
		help(name+".txt", name)
	}
	golden.Folder(t, filepath.Join("testdata", "help"), files...)
	golden.Reference(t, filepath.Join("..", "..", "docs", "teleport-find.md"), "teleport-find", said)
	if len(files) < 8 {
		t.Errorf("only these were found: %q", files)
	}
}
