//go:build hosts

package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A person looks into a host that a test has left, and lets go of it.
func TestAHostIsKeptWhileAPersonLooks(t *testing.T) {
	h := ForTest(t, Options{})
	h.Write("/root/left", "by the test\n")
	mark := filepath.Join(h.Dir, "kept")
	h.Keep() // nobody asked
	if _, err := os.Stat(mark); err == nil {
		t.Error("kept, and nobody asked for it")
	}
	t.Setenv(keepVariable, "all")
	over := make(chan struct{})
	go func() {
		defer close(over)
		h.keep()
	}()
	Wait(t, Patience, func() error {
		_, err := os.Stat(mark)
		return err
	})
	out, err := exec.Command("sh", "-c", h.enter()+" cat /root/left").CombinedOutput()
	if err != nil || string(out) != "by the test\n" {
		t.Errorf("inside: %s, %v", out, err)
	}
	select {
	case <-over:
		t.Error("the host was let go of, and nobody said so")
	default:
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	<-over
}
