package main

import (
	"testing"
	"time"
)

// A ratio is to the largest of its bounds, whichever comes first, and tells all of them.
func TestARatioIsToTheLargestOfItsBounds(t *testing.T) {
	for _, tc := range []struct {
		bounds  []bound
		medians string
		value   float64
	}{
		{[]bound{{took: 2 * time.Second}}, "3.00 s / 2.00 s", 1.5},
		{[]bound{{"download", time.Second}, {"decompressing", 3 * time.Second}},
			"3.00 s / the larger of download 1.00 s, decompressing 3.00 s", 1},
		{[]bound{{"bytes / rate", 6 * time.Second}, {"download", time.Second}, {"decompressing", 2 * time.Second}},
			"3.00 s / the largest of bytes / rate 6.00 s, download 1.00 s, decompressing 2.00 s", 0.5},
	} {
		r := newTable("updates", 1)
		r.ratio("update", 3*time.Second, atMost(1.1), tc.bounds...)
		row := r.Rows[0]
		if row.Medians != tc.medians || row.Value != tc.value || row.Goal != 1.1 || !row.HasGoal {
			t.Errorf("got %+v; want %v, %s", row, tc.value, tc.medians)
		}
	}
}
