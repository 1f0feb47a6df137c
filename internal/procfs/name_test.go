package procfs

import (
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"teleport-update/internal/console"
	"teleport-update/internal/console/consoletest"
)

func TestAProcessesNameIsBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	for kind, word := range consoletest.Words() {
		if err := os.WriteFile(filepath.Join(dir, "7", "comm"), []byte(word+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		name := (FS{Proc: dir}).Name(7)
		if utf8.RuneCountInString(name) > maxName+1 || console.Line(name) != name || name == "" {
			t.Errorf("%s: %.80q", kind, name)
		}
	}
}
