package main

import (
	"testing"

	"teleport-update/tools/internal/figure"
)

// Medians of each figure stand beside each other; a figure that one commit alone has is left out.
func TestTwoBuildsAreComparedByTheirMedians(t *testing.T) {
	measured := func(commit string, runs ...[]figure.Row) *build {
		b := &build{commit: commit}
		for _, rows := range runs {
			b.add(figure.Figures{Benchmarks: map[string]figure.Benchmark{"find": {Rows: rows}}})
		}
		return b
	}
	rows := func(rate, memory, none float64) []figure.Row {
		return []figure.Row{{What: "rate", Value: rate}, {What: "memory", Value: memory, Unit: "MB"}, {What: "outage", Value: none, Unit: "ms"}}
	}
	a := measured("aaaa", append(rows(1, 100, 0), figure.Row{What: "gone", Value: 1}), rows(9, 300, 0), rows(2, 200, 0))
	b := measured("bbbb", rows(3, 100, 1), rows(3, 100, 1), rows(1, 900, 1))
	const want = "| medians of 3 | aaaa | bbbb | ratio |\n| --- | --- | --- | --- |\n" +
		"| find: rate | 2 | 3 | 1.50 |\n| find: memory | 200 MB | 100 MB | 0.50 |\n| find: outage | 0 ms | 1 ms |  |\n"
	if got := compared(a, b); got != want {
		t.Errorf("compared:\n%s\nwant\n%s", got, want)
	}
}
