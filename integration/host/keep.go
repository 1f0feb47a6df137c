package host

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// keepVariable in the environment has tests wait before they close their hosts:
// "1" where the test failed, "all" in any case.
const keepVariable = "KEEP_HOSTS"

// Keep lets a person look into the host that a test leaves behind, where the
// environment asks for it: it says how to enter the host, and waits until the
// person lets go of it or the time of the tests is nearly up. What belongs to the
// host in the test's own process calls it before it goes away; the second call
// does nothing.
func (h *Test) Keep() { h.kept.Do(h.keep) }

func (h *Test) keep() {
	switch asked := os.Getenv(keepVariable); {
	case asked == "all", asked != "" && h.t.Failed():
	default:
		return
	}
	mark := filepath.Join(h.Dir, "kept")
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		h.t.Errorf("keep %s: %v", h.Name, err)
		return
	}
	// Not by the test's log: go test may show that when all is over.
	fmt.Fprintf(os.Stderr, "\n*** %s is kept as %s left it.\n    look into it:  %s\n    its files:     %s\n    let go of it:  rm %s\n\n",
		h.Name, h.t.Name(), h.enter(), filepath.Join(h.Dir, "root"), mark)
	until := time.Time{}
	if t, ok := h.t.(interface{ Deadline() (time.Time, bool) }); ok {
		if limit, ok := t.Deadline(); ok {
			until = limit.Add(-Patience)
		}
	}
	for {
		if _, err := os.Stat(mark); err != nil {
			return
		}
		if !until.IsZero() && time.Now().After(until) {
			fmt.Fprintf(os.Stderr, "*** %s goes: the time limit of the tests is near (-timeout 0 is none)\n", h.Name)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// enter is the command by which a person gets a shell in the host.
func (h *Host) enter() string {
	m, err := h.machine()
	if err != nil {
		return "the host is off"
	}
	return fmt.Sprintf("nsenter --target %d --all", m.leader)
}
