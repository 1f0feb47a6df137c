package driver

import (
	"strings"
	"testing"
	"time"

	"teleport-update/find/rollout"
)

func TestTheNameOfAServer(t *testing.T) {
	for hostname, want := range map[string]string{"find-1.example.com": "find-1.example.com", "Find_1": "find-1", "": "find", "../x": "x", strings.Repeat("a", 100): strings.Repeat("a", 63)} {
		got := ServerName(hostname)
		if got != want {
			t.Errorf("%q makes %q; want %q", hostname, got, want)
		}
		r := rollout.NewAgentReport(got, &rollout.Rollout{}, rollout.Counts{}, time.Now())
		if err := r.Check(); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}
