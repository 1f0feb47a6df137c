package installer

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A pipe in the place of the unit must neither keep a command waiting, nor be taken for
// what stood there before.
func TestAPipeForAUnitIsSeenAndNotWaitedFor(t *testing.T) {
	i := testInstaller(t)
	writeFile(t, i.Machine.Host.Paths.Unit(), "[Service]\n")
	before, err := i.footprint()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(i.Machine.Host.Paths.Unit()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(i.Machine.Host.Paths.Unit(), 0o644); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 2 {
			now, err := i.footprint()
			if err != nil || now == before {
				t.Errorf("%q, %v; the one before was %q", now, err, before)
			}
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the pipe is waited for")
	}
}
