package rollout

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Each host of a group is in its tally once, whatever has happened.
func TestATallyHasEachHostOnce(t *testing.T) {
	seen := Tally{}
	for i := range uint64(150) {
		h := newHistory(rand.Uint64(), i)
		if problem := h.run(); problem != "" {
			t.Fatal(problem)
		}
		if h.rollout == nil {
			continue
		}
		if n := h.counts(); n.Subject != h.rollout.Subject() {
			t.Fatalf("the counts are about %q; want %q", n.Subject, h.rollout.Subject())
		}
		for _, g := range h.counts().Groups {
			all, onTarget := 0, 0
			for class := range g.Tally {
				for result, n := range g.Tally[class] {
					all += n
					seen[class][result] += n
					if VersionClass(class) == OnTarget && HostResult(result) != HostMissing {
						onTarget += n
					}
				}
			}
			if all != g.Present+g.Missing || onTarget != g.UpToDate {
				t.Fatalf("the tally %v has %d hosts, %d on the target; counted are %d and %d missing, %d on the target", g.Tally, all, onTarget, g.Present, g.Missing, g.UpToDate)
			}
		}
	}
	if seen[OnTarget][HostUpToDate] == 0 || seen[OnStart][HostNotYet]+seen[OnOther][HostNotYet] == 0 {
		t.Errorf("the histories have only %v", seen)
	}
}

func TestWhatBecameOfAHost(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	on := trial{target: "1.1.0", begun: true, since: noon.Add(-2 * time.Hour), limit: time.Hour, silence: 20 * time.Minute, complete: true, now: noon}
	before := trial{target: "1.1.0", now: noon}
	lately, early := noon.Add(-time.Minute), noon.Add(-110*time.Minute)
	told := func(at time.Time) Host { return Host{Version: "1.0.0", LastSeen: lately, Told: Event{"1.1.0", at}} }
	failed := Host{Version: "1.0.0", LastSeen: lately, Failed: Failure{Event: Event{"1.1.0", lately}}}
	down := Host{Version: "1.0.0", LastSeen: lately, Unhealthy: true}
	for name, tc := range map[string]struct {
		host  Host
		trial trial
		want  HostResult
	}{
		"before its turn":       {Host{Version: "1.0.0", LastSeen: lately}, before, HostNotYet},
		"not told yet":          {Host{Version: "1.0.0", LastSeen: lately}, on, HostNotYet},
		"told":                  {told(lately), on, HostUpdating},
		"told, and out of time": {told(early), on, HostTimedOut},
		"begun, and silent":     {Host{Version: "1.0.0", LastSeen: noon.Add(-24 * time.Minute), Begun: Event{"1.1.0", early}}, on, HostFailed},
		"failed":                {failed, on, HostFailed},
		"failed before":         {failed, before, HostNotYet},
		"down":                  {down, on, HostDown},
		"down on the target":    {Host{Version: "1.1.0", LastSeen: lately, Unhealthy: true}, on, HostDown},
		"on the target":         {Host{Version: "1.1.0", LastSeen: lately}, on, HostUpToDate},
		"after a failure":       {Host{Version: "1.1.0", LastSeen: lately, Failed: failed.Failed}, on, HostUpToDate},
	} {
		if got := tc.host.resultOf(tc.trial); got != tc.want {
			t.Errorf("%s: %s; want %s", name, got, tc.want)
		}
	}
}
