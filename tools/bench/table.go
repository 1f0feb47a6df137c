package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"teleport-update/tools/internal/figure"
)

// table is a table that the run ends with.
type table struct {
	figure.Benchmark
	name    string
	skipped []string
}

func newTable(name string, rounds int) *table {
	by := "make bench"
	if name == "backups" {
		by = "make bench-backup"
	}
	return &table{name: name, Benchmark: figure.Benchmark{Origin: figure.Measured(by), Machine: figure.Machine(),
		Notes: []string{fmt.Sprintf("Medians of %d interleaved runs.", rounds)}}}
}

// goal is the most that a value should be; none is no goal.
type goal struct {
	most float64
	any  bool
}

func atMost(v float64) goal { return goal{v, true} }

var none goal

// bound is what a wall time is compared with: something that cannot be done
// without, and how long it took in the same run.
type bound struct {
	what string
	took time.Duration
}

// ratio adds a to the largest of the bounds.
func (r *table) ratio(what string, a time.Duration, g goal, bounds ...bound) {
	largest, texts := bounds[0], []string{}
	for _, b := range bounds {
		if b.took > largest.took {
			largest = b
		}
	}
	for _, b := range bounds {
		text := formatDuration(b.took)
		if len(bounds) > 1 {
			text = b.what + " " + text
		}
		texts = append(texts, text)
	}
	medians := formatDuration(a) + " / " + texts[0]
	if len(texts) > 1 {
		word := "larger"
		if len(texts) > 2 {
			word = "largest"
		}
		medians = fmt.Sprintf("%s / the %s of %s", formatDuration(a), word, strings.Join(texts, ", "))
	}
	value := a.Seconds() / largest.took.Seconds()
	r.Rows = append(r.Rows, figure.Row{What: what, Medians: medians, Value: value, Goal: g.most, HasGoal: g.any})
}

func formatDuration(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func (r *table) value(what string, value float64, unit string, g goal) {
	r.Rows = append(r.Rows, figure.Row{What: what, Value: value, Unit: unit, Goal: g.most, HasGoal: g.any})
}

func (r *table) skip(what string, why error) {
	r.skipped = append(r.skipped, fmt.Sprintf("Not measured: %s (%v).", what, why))
}

func (r *table) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s", r.Table())
	if len(r.skipped) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(r.skipped, "\n"))
	}
}

func secondsFor(bytes, rate int64) time.Duration {
	return time.Duration(float64(bytes) / float64(rate) * float64(time.Second))
}
