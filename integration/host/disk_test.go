//go:build hosts

package host

import (
	"fmt"
	"testing"
)

func TestAPowerCutLosesWhatWasNotSynced(t *testing.T) {
	t.Parallel()
	h := ForTest(t, Options{Disk: true})
	h.Write("/root/synced", "there\n")
	h.Must("sync")
	h.Write("/root/not-synced", "lost\n")
	for range 2 {
		if err := h.CutPower(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := h.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.Read("/root/synced"); got != "there\n" {
		t.Errorf("what was synced is %q", got)
	}
	if h.Exists("/root/not-synced") {
		t.Error("what was not synced is there: no power was cut")
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	// The kernel takes it away after the last process has gone.
	Wait(t, Patience, func() error {
		loop, err := loopOf(h.Dir + "/" + diskName)
		if err == nil && loop != "" {
			err = fmt.Errorf("a loop device is left: %s", loop)
		}
		return err
	})
}
