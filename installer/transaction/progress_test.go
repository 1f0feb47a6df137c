package transaction

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teleport-update/backup"
)

// A database of a gigabyte, and the clock of the bubble.
func TestARestorationSaysHowLongItTakes(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, backup.FileName)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1000<<20); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		progress := watchRestore(slog.New(slog.NewTextHandler(&out, nil)), dir)
		time.Sleep(5 * time.Second)
		progress.End()
		if !strings.Contains(out.String(), "restoring the agent's database … 4 s, about 16 s left") {
			t.Errorf("after five seconds it has said %q", out.String())
		}
	})
}
