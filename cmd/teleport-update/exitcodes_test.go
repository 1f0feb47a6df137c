package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The page of the commands has the words by which systemd explains the exit codes, for none of them
// says what the updater means.
func TestTheWordsOfSystemdForExitCodesAreExplained(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	page, err := os.ReadFile("../../docs/teleport-update.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(page), -1)
	if len(codes) < 4 {
		t.Fatalf("docs/teleport-update.md has a table of %d exit codes", len(codes))
	}
	for _, code := range codes {
		out, err := exec.Command("systemd-analyze", "exit-status", code[1]).Output()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		fields := strings.Fields(lines[len(lines)-1])
		if err != nil || len(fields) != 3 {
			t.Fatalf("systemd-analyze says %q of %s (%v)", out, code[1], err)
		}
		word, class := fields[0], fields[2]
		if class == "libc" {
			continue // SUCCESS and FAILURE are true
		}
		if !strings.Contains(string(page), code[1]+" as `"+word+"`") {
			t.Errorf("systemd shows %s as %s, and docs/teleport-update.md does not say so", code[1], word)
		}
	}
}
