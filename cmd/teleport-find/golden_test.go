package main

import (
	"bytes"
	"path/filepath"
	"slices"
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
		if strings.HasSuffix(line, ":\n") || strings.TrimSpace(line) == "" {
			continue // a heading
		}
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

// The flags that most people need come first; all others have a heading.
func TestTheFirstScreenOfServesHelpIsShort(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"teleport-find", "serve", "--help"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr.String())
	}
	_, flags, _ := strings.Cut(stdout.String(), "OPTIONS:\n")
	plain, headed := golden.CountFlags(flags)
	if plain == 0 || plain > 14 || headed == 0 {
		t.Errorf("%d flags have no heading, %d have; at most 14 may have none:\n%s", plain, headed, flags)
	}
}

// Each command prints for programs too, and each that changes something can be tried and takes a reason for the
// history. Who adds a command says here what it does.
func TestEveryCommandTakesTheFlagsOfItsKind(t *testing.T) {
	const format, try, reason = "--output", "--dry-run", "--reason"
	kinds := map[string][]string{
		"serve": nil, "mode": nil, "rollout": nil, "notify": nil, // have commands of their own
		"channels": {format, try}, "mirror": {format, try}, // change files alone
	}
	for _, name := range []string{"status", "get", "plan", "simulate", "hosts", "history", "token", "notify test", "version", "backup"} {
		kinds[name] = []string{format}
	}
	for _, name := range []string{"set-version", "mode enabled", "mode suspended", "mode disabled", "apply", "edit",
		"rollout start", "rollout done", "rollout back", "rollout retry", "rollout reset",
		"token add", "token revoke", "token revoke-host", "notify remove", "restore", "hosts"} {
		kinds[name] = []string{format, try, reason}
	}
	help := func(command string) string {
		var stdout, stderr bytes.Buffer
		if code := run(append(append([]string{"teleport-find"}, strings.Fields(command)...), "--help"), &stdout, &stderr); code != 0 {
			t.Errorf("%s: exit code %d, %s", command, code, stderr.String())
		}
		return stdout.String()
	}
	found := 0
	var look func(command string)
	look = func(command string) {
		text := help(command)
		if command != "" {
			found++
			flags, known := kinds[command]
			if !known {
				t.Errorf("nobody says here what %s does", command)
			}
			for _, flag := range []string{format, try, reason} {
				if has := strings.Contains(text, flag+" "); has != slices.Contains(flags, flag) {
					t.Errorf("%s has %s: %t", command, flag, has)
				}
			}
			if slices.Contains(flags, format) && !strings.Contains(text, "table|json|yaml") {
				t.Errorf("%s does not take -o table|json|yaml", command)
			}
		}
		_, below, _ := strings.Cut(text, "COMMANDS:\n")
		below, _, _ = strings.Cut(below, "\n\n")
		for line := range strings.Lines(below) {
			if strings.HasSuffix(line, ":\n") || strings.TrimSpace(line) == "" {
				continue // a heading
			}
			look(strings.TrimSpace(command + " " + strings.TrimSuffix(strings.Fields(line)[0], ",")))
		}
	}
	look("")
	if found != len(kinds) {
		t.Errorf("%d commands were found; want %d", found, len(kinds))
	}
}
