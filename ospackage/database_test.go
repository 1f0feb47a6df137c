package ospackage

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"
)

func TestAQueryThatWasKilledHasNotAnswered(t *testing.T) {
	for script, want := range map[string]bool{"exit 0": true, "exit 1": true, "exit 2": true, "exit 3": false, "kill -9 $$": false, "kill -15 $$": false} {
		err := exec.Command("/bin/sh", "-c", script).Run()
		if err != nil {
			err = fmt.Errorf("ask: %w", err)
		}
		if got := answered(err, 2); got != want {
			t.Errorf("%s: answered is %v, want %v (%v)", script, got, want, err)
		}
	}
	if answered(errors.New("the program is not there"), 2) {
		t.Error("a query that was not made has answered")
	}
}
