package installer

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that the host does not let grow (LimitFSIZE=, a file system's own limit) speaks against no version; a program that fails does.
func TestAFileTooLargeForTheHostIsNoFaultOfAVersion(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), math.MaxInt64-1)
	if !errors.Is(err, unix.EFBIG) {
		t.Fatalf("a write beyond all limits: %v", err)
	}
	if !ofHost(fmt.Errorf("copy the program: %w", err)) {
		t.Errorf("%v speaks against the version", err)
	}
	if err := exec.Command("false").Run(); ofHost(err) {
		t.Errorf("%v speaks against the host", err)
	}
}
