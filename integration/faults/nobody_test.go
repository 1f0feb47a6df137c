//go:build hosts

package faults

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Packages ship the data folder closed. What everybody could run before a take-over, they
// can run after it, and nothing of the agent's is opened for it.
func TestATakeOverLocksNobodyOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	w := newWorld(t)
	if err := errors.Join(existing(t.Context(), w), os.Chmod(w.Dir, 0o755), os.Chmod(w.Data, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := w.climb(t.Context(), V1, V2); err != nil {
		t.Fatal(err)
	}
	nobody := func(name string) error {
		cmd := exec.Command(filepath.Join(w.Links, name), "version")
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		_, err := cmd.Output()
		return err
	}
	for name := range w.linksOf(V2) {
		if err := nobody(name); err != nil {
			t.Errorf("others run %s: %v", name, err)
		}
	}
	if info, err := os.Stat(w.Data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder is %v, %v", info.Mode(), err)
	}
	if r, err := w.Run(t.Context(), "verify"); err != nil || strings.Contains(r.Output, "BAD  other users") {
		t.Errorf("verify says %v\n%s", err, r.Output)
	}
	if err := os.Chmod(w.Programs, 0o700); err != nil {
		t.Fatal(err)
	}
	if nobody("teleport") == nil {
		t.Error("the test shows nothing")
	}
	w.says(t, 1, "other users cannot run", "verify")
}
