//go:build hosts

package guides

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teleport-update/integration/markdown"
)

// Without a terminal status and history are JSON, and text on one: what we print or
// run for people names the format, so that it is the same everywhere.
func TestGuidesAndScriptsNameTheFormat(t *testing.T) {
	t.Parallel()
	named := 0
	look := func(name, text string) {
		for line := range strings.Lines(text) {
			switch command := formatted.FindString(line); {
			case command == "":
			case !strings.Contains(command, " --format"):
				t.Errorf("%s: %q does not name the format", name, strings.TrimSpace(line))
			default:
				named++
			}
		}
	}
	for _, guide := range guides(t) {
		blocks, err := markdown.Read(guide, file(t, guide))
		check(t, err)
		for _, b := range blocks {
			if b.IsCommands() {
				look(b.String(), b.Text)
			}
		}
	}
	check(t, filepath.WalkDir(filepath.Join(module, "packaging"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name := strings.TrimPrefix(path, module+"/"); runsCommands(name) {
			look(name, file(t, name))
		}
		return nil
	}))
	if named < 5 {
		t.Errorf("only %d commands were seen", named)
	}
}

// runsCommands reports whether a file is one that is run. Pages of the manual and
// completions are about all of a command, and what an alert names, a person types.
func runsCommands(name string) bool {
	for _, part := range []string{"/completions/", "/monitoring/"} {
		if strings.Contains(name, part) {
			return false
		}
	}
	return !strings.HasSuffix(name, ".8") && !strings.HasSuffix(name, "_test.go")
}

var formatted = regexp.MustCompile(`teleport-updater? (status|history)\b.*`)
