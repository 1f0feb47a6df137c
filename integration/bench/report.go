package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// report is the table that the run ends with.
type report struct {
	head    []string
	rows    []string
	skipped []string
}

func newReport(in inputs, rounds int) *report {
	return &report{head: []string{
		fmt.Sprintf("%s, %d cores (%s), %s.", runtime.Version(), runtime.NumCPU(), cpuModel(), time.Now().UTC().Format("2 January 2006")),
		fmt.Sprintf("Release: %d MB as tar, %d MB as gzip -6, %d MB as zstd. Medians of %d interleaved runs.",
			in.plainN/1e6, in.gzipN/1e6, in.zstdN/1e6, rounds),
	}}
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, model, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return runtime.GOARCH
}

// ratio adds a/b; a goal of 0 is none.
func (r *report) ratio(what string, a, b time.Duration, goal float64) {
	value := a.Seconds() / b.Seconds()
	r.rows = append(r.rows, fmt.Sprintf("| %s | %.2f s / %.2f s | %.2f | %s |", what, a.Seconds(), b.Seconds(), value, verdict(value, goal)))
}

func (r *report) value(what string, value float64, unit string, goal float64) {
	r.rows = append(r.rows, fmt.Sprintf("| %s | | %.1f %s | %s |", what, value, unit, verdict(value, goal)))
}

func verdict(value, goal float64) string {
	switch {
	case goal == 0:
		return ""
	case value <= goal:
		return fmt.Sprintf("≤ %g", goal)
	}
	return fmt.Sprintf("**missed: ≤ %g**", goal)
}

func (r *report) skip(what string, why error) {
	r.skipped = append(r.skipped, fmt.Sprintf("Not measured: %s (%v).", what, why))
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n\n| | medians | value | goal |\n| --- | --- | --- | --- |\n%s\n",
		strings.Join(r.head, "\n"), strings.Join(r.rows, "\n"))
	if len(r.skipped) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(r.skipped, "\n"))
	}
}

func secondsFor(bytes, rate int64) time.Duration {
	return time.Duration(float64(bytes) / float64(rate) * float64(time.Second))
}
