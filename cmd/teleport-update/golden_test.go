package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/golden"
)

// The hidden commands are contracts, too: units and other builds of this program call
// them.
func TestTheHelpOfEachCommandKeepsItsForm(t *testing.T) {
	files := []string{"all.txt"}
	said := func(command ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), append(append([]string{appName}, command...), "--help"), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
			t.Errorf("%q: exit code %d, %s", command, code, stderr.String())
		}
		return stdout.String()
	}
	help := func(file string, command ...string) {
		t.Helper()
		golden.File(t, filepath.Join("testdata", "help", file), said(command...))
	}
	help("all.txt")
	var hidden []string
	for _, c := range (&app{}).commands().Commands {
		if c.Hidden {
			hidden = append(hidden, c.Name)
		}
		files = append(files, c.Name+".txt")
		help(c.Name+".txt", "--data-dir", t.TempDir(), c.Name)
	}
	golden.Folder(t, filepath.Join("testdata", "help"), files...)
	golden.Reference(t, filepath.Join("..", "..", "docs", "teleport-update.md"), appName, said)
	if !slices.Equal(hidden, []string{"setup", "recover", "switch", "image"}) {
		t.Errorf("the hidden commands are %q", hidden)
	}
}

// The flags that most people need come first; all others have a heading.
func TestTheFirstScreenOfEnablesHelpIsShort(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{appName, "enable", "--help"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr.String())
	}
	_, flags, _ := strings.Cut(stdout.String(), "OPTIONS:\n")
	plain, headed := golden.CountFlags(flags)
	if plain == 0 || plain > 12 || headed == 0 {
		t.Errorf("%d flags have no heading, %d have; at most 12 may have none:\n%s", plain, headed, flags)
	}
}

// An updater of another version asks this one what it is.
func TestTheVersionSaysWhichJournalsAreUnderstood(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{appName, "version", "--format", "json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d, %s", code, stderr.String())
	}
	var says map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &says); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(says)); !slices.Equal(got, []string{"arch", "go", "os", "schema", "version"}) || says["schema"] != float64(state.Schema) {
		t.Errorf("it says %s", stdout.String())
	}
}

// What another process began and this program does not know, it does not take for a
// fault of the command line.
func TestAnOrderOfANewerUpdaterFailsWithoutAWordAboutUsage(t *testing.T) {
	for order, want := range map[string]int{
		`{"schema":99,"readable_from":99,"switch":{"kind":"teleport"}}`: exitFailed,
		`{"schema":99`: exitUsage,
	} {
		stdin(t, order)
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{appName, "--data-dir", t.TempDir(), "switch"}, &stdout, &stderr)
		if code != want || strings.Contains(stderr.String(), "--help") != (want == exitUsage) {
			t.Errorf("%s: exit code %d, want %d: %s", order, code, want, stderr.String())
		}
	}
}

// stdin has the process read a text.
func stdin(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stdin")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = f
	t.Cleanup(func() { os.Stdin = before; f.Close() })
}
