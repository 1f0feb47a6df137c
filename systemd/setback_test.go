package systemd

import (
	"testing"
	"time"
)

// A run of the timer ended while the clock was nine hours ahead, and what is seen later came after it.
func TestTimesOfAClockThatWasSetBackAreTakenBack(t *testing.T) {
	now, up := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 3*time.Hour
	stamps := func(ago, ahead time.Duration) (real, monotonic uint64) {
		return uint64(now.Add(ahead - ago).UnixMicro()), uint64((up - ago).Microseconds())
	}
	for name, tc := range map[string]struct{ ago, ahead, want time.Duration }{
		"a clock that was right":        {10 * time.Minute, 0, 10 * time.Minute},
		"a clock nine hours ahead":      {10 * time.Minute, 9 * time.Hour, 10 * time.Minute},
		"a clock three minutes ahead":   {10 * time.Minute, 3 * time.Minute, 10 * time.Minute},
		"a clock behind, or a long nap": {10 * time.Minute, -time.Hour, 70 * time.Minute},
	} {
		real, monotonic := stamps(tc.ago, tc.ahead)
		values := map[string]any{"NextElapseUSecRealtime": uint64(now.Add(time.Hour).UnixMicro())}
		for _, name := range moments {
			values[name], values[name+"Monotonic"] = real, monotonic
		}
		p := variants(values)
		p.setBack(now, up)
		u := parseUnit("teleport-update.service", p)
		for what, at := range map[string]time.Time{"since": u.Since, "started": u.StartedAt, "ended": u.ExitedAt, "triggered": u.Triggered} {
			if !at.Equal(now.Add(-tc.want)) {
				t.Errorf("%s: %s at %v; want %v", name, what, at, now.Add(-tc.want))
			}
		}
		if !u.NextTrigger.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: the next run is moved to %v", name, u.NextTrigger)
		}
	}
	p := variants(map[string]any{"LastTriggerUSec": uint64(now.Add(time.Hour).UnixMicro()), "LastTriggerUSecMonotonic": uint64(0)})
	if p.setBack(now, up); !parseUnit("x.timer", p).LastTrigger.Equal(now.Add(time.Hour)) {
		t.Error("a time of a boot before is moved by this boot's clock")
	}
}
