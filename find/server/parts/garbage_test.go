package parts

import (
	"runtime/debug"
	"testing"
)

// Without many hosts an administrator has his way.
func TestWhatGOGCSaysStays(t *testing.T) {
	defer func(before uint64) { configured = before }(configured)
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, percent := range []int{50, -1} {
		debug.SetGCPercent(percent)
		configured = gogc()
		if SpareMemory(); gogc() != configured {
			t.Errorf("%d %% of garbage; want %d %%", gogc(), configured)
		}
	}
}
