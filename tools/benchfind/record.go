package main

import (
	"fmt"

	"teleport-update/tools/internal/figure"
)

// record leaves a table for `make figures`.
func record(name string, hosts, rounds int, rows ...figure.Row) error {
	table := figure.Benchmark{Origin: figure.Measured("make bench-find"), Machine: figure.Machine(), Rows: rows,
		Notes: []string{fmt.Sprintf("%d hosts. Medians of %d interleaved runs.", hosts, rounds)}}
	return figure.Figures{Benchmarks: map[string]figure.Benchmark{name: table}}.Record(".", "bench-"+name)
}

// value is a row that should be at most a goal; 0 is none.
func value(what string, v float64, unit string, goal float64) figure.Row {
	return figure.Row{What: what, Value: v, Unit: unit, Goal: goal, HasGoal: goal > 0}
}

// ratio is a row of what something took against its bound, both in a unit.
func ratio(what string, took, bound float64, unit string, goal float64) figure.Row {
	medians := fmt.Sprintf("%.2f %s / %.2f %s", took, unit, bound, unit)
	return figure.Row{What: what, Medians: medians, Value: took / bound, Goal: goal, HasGoal: true}
}

// against compares what a contender does with the constant handler. Of rates, the ratio is
// turned over: a figure's goal is the most that it should be.
func against(base, c *contender) []figure.Row {
	rate := figure.Row{What: "questions a second: constant net/http handler / " + c.name, Value: figure.Median(base.rates) / figure.Median(c.rates),
		Medians: fmt.Sprintf("%.0f / %.0f", figure.Median(base.rates), figure.Median(c.rates))}
	p99 := figure.Row{What: "p99: " + c.name + " / constant net/http handler", Value: figure.Median(c.p99s) / figure.Median(base.p99s),
		Medians: fmt.Sprintf("%.2f ms / %.2f ms", figure.Median(c.p99s), figure.Median(base.p99s))}
	if c.name == "teleport-find" {
		rate.Goal, rate.HasGoal, p99.Goal, p99.HasGoal = 1/goalRate, true, goalP99, true
	}
	rows := []figure.Row{rate, p99}
	if cost := figure.Median(c.costs); cost > 0 {
		rows = append(rows, figure.Row{What: "CPU of an answer: " + c.name + " / constant net/http handler", Value: cost / figure.Median(base.costs),
			Medians: fmt.Sprintf("%.1f µs / %.1f µs", cost, figure.Median(base.costs))})
	}
	return rows
}
