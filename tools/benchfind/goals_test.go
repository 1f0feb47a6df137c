package main

import (
	"fmt"
	"testing"

	"teleport-update/tools/internal/figure"
)

// The goals in the docs are those that a run is held to.
func TestTheDocsNameTheGoalsOfFind(t *testing.T) {
	unnamed, err := figure.UnnamedGoals("../../docs/development/performance.md", map[string]string{
		"find, constant net/http handler / teleport-find: questions": fmt.Sprintf("%.4g", 1/goalRate),
		"find: p99":           fmt.Sprintf("%g", goalP99),
		"find: a plan":        fmt.Sprintf("%g", goalPlan),
		"find: CPU of a tick": fmt.Sprintf("%g", goalTick),
		"find: first answer":  fmt.Sprintf("%d s", goalStart),
		"find: memory of":     fmt.Sprintf("%d MB", goalMemory),
	})
	if err != nil || len(unnamed) > 0 {
		t.Errorf("the docs do not name these goals: %q, %v", unnamed, err)
	}
}

// The bound of a tick counts each host once, and looks up those that are in flight.
func TestThePassCountsEveryHost(t *testing.T) {
	p := newPass(1000)
	p.cpu()
	all, looked := 0, 0
	for _, c := range p.counts {
		all, looked = all+c[1], looked+c[0]
	}
	if all != 1000 || looked != 1000/inFlight {
		t.Errorf("it counted %d hosts and looked up %d; want 1000 and %d", all, looked, 1000/inFlight)
	}
}
