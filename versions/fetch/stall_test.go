package fetch

import (
	"testing"
	"time"
)

func TestTheGaugeSeesAStallAndNothingElse(t *testing.T) {
	type reading struct {
		waited time.Duration
		bytes  int64
	}
	const s = time.Second
	steady := func(perSecond int64, seconds int) (out []reading) {
		for i := range seconds {
			out = append(out, reading{time.Duration(i) * s, int64(i) * perSecond})
		}
		return out
	}
	for name, tc := range map[string]struct {
		readings []reading
		stalled  bool
	}{
		"a fast server":                         {steady(10000, 100), false},
		"one just fast enough":                  {steady(1000, 100), false},
		"one a little too slow":                 {steady(990, 100), true},
		"silence from the start":                {steady(0, 31), true},
		"silence that is shorter than a window": {steady(0, 29), false},
		"a burst, then silence": {append(steady(100000, 40),
			reading{50 * s, 3900000}, reading{60 * s, 3900000}, reading{69 * s, 3900000}, reading{80 * s, 3900000}), true},
		"a pause shorter than a window": {append(steady(100000, 40),
			reading{50 * s, 3900000}, reading{60 * s, 3900000}, reading{66 * s, 8000000}, reading{80 * s, 8000000}), false},
		"a slow disk, for which nobody waited": {[]reading{{s, 1000}, {s, 1000}, {s, 1000}, {s, 1000}}, false},
	} {
		g := stallGauge{window: 30 * s, floor: 30000}
		got := false
		for _, r := range tc.readings {
			got = got || g.stalled(r.waited, r.bytes)
		}
		if got != tc.stalled {
			t.Errorf("%s: stalled %v; want %v", name, got, tc.stalled)
		}
		if len(g.marks) > gaugeMarks+3 {
			t.Errorf("%s: %d marks kept", name, len(g.marks))
		}
	}
}
