// Package golden is for tests. It compares files, texts and names on which other programs and
// other people rely with golden files in testdata.
//
// A difference is either a fault, or a change of a contract. For a change, run the test with
// -update, which writes the golden file, so that the reviewer of the commit sees the
// change there.
package golden

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// File fails a test unless a golden file, by its path from the test's folder, has exactly this
// text.
func File(t testing.TB, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err == nil && string(want) == got {
		return
	}
	if *update {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, []byte(got), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
	t.Errorf("%s is a contract, and is another now (%v). Where that is meant, write it: go test -run '%s' . -update\n%s", path, err, t.Name(),
		difference(path, got))
}

// Part fails a test unless a page has exactly this text between the marks that name its source.
func Part(t testing.TB, path, source, text string) {
	t.Helper()
	begin, end := "<!-- written from "+source+": begin -->\n", "<!-- end -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no part between the marks %q and %q", path, begin, end)
	}
	File(t, path, before+begin+text+end+after)
}

// Folder fails a test unless the golden files in a folder have exactly these names: a removed file
// is a change, too.
func Folder(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		switch path := filepath.Join(dir, e.Name()); {
		case slices.Contains(names, e.Name()):
		case *update:
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s is a contract, and nothing makes it any more. Where that is meant, remove it: go test -run '%s' . -update", path, t.Name())
		}
	}
}

// difference returns the difference for a reviewer, or the whole text if diff(1) is not installed.
func difference(path, got string) string {
	cmd := exec.Command("diff", "-u", "--label", "agreed", "--label", "now", path, "-")
	cmd.Stdin = bytes.NewReader([]byte(got))
	out, _ := cmd.Output()
	if len(out) == 0 {
		return got
	}
	return string(out)
}
