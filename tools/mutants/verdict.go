package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"teleport-update/tools/internal/figure"
)

// verdict is what came of a mutant.
type verdict struct {
	m    Mutant
	by   string // the rung that caught it, or why none can be named; empty: none did
	test string // that failed
	took time.Duration
}

func (v verdict) caught() bool {
	return v.by != "" && v.by != notCompiled && v.by != unsound && v.by != endless
}

func (v verdict) String() string {
	why := equivalent[v.m.ID()]
	switch {
	case why != "":
		return fmt.Sprintf("%s: EQUIVALENT: %s", v.m, why)
	case v.caught():
		return fmt.Sprintf("%s: caught by %s, %s", v.m, v.by, v.test)
	case v.by != "":
		return fmt.Sprintf("%s: %s", v.m, v.by)
	}
	return fmt.Sprintf("%s: NOT CAUGHT", v.m)
}

// judge runs the tests against each mutant, tells of each as soon as it is known,
// and all of it again in the order of the source.
func judge(ctx context.Context, l *ladder, mutants []Mutant, jobs int) error {
	begun := time.Now()
	verdicts := make([]verdict, len(mutants))
	slots := make(chan bool, jobs)
	var all sync.WaitGroup
	for n, m := range mutants {
		slots <- true
		all.Go(func() {
			defer func() { <-slots }()
			v := verdict{m: m}
			if ctx.Err() == nil && equivalent[m.ID()] == "" {
				at, out := time.Now(), ""
				v.by, out = l.climb(ctx, fmt.Sprint(n), m)
				v.test, v.took = failed(out), time.Since(at)
				if ctx.Err() == nil {
					fmt.Printf("%s (%.0fs)\n", v, v.took.Seconds())
					if v.by != "" && !v.caught() {
						fmt.Println(out)
					}
				}
			}
			verdicts[n] = v
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return l.report(verdicts, time.Since(begun))
}

// failed is the first test that failed, as its output says.
func failed(out string) string {
	// The innermost, for its name is the longest that begins like the first one.
	name := ""
	for _, m := range failure.FindAllStringSubmatch(out, -1) {
		if strings.HasPrefix(m[1], name) {
			name = m[1]
		}
	}
	return cmp.Or(name, "which did not end as tests do")
}

var failure = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)

// report prints the table and the figures, and leaves those of a run of all
// mutants for `make figures`.
func (l *ladder) report(verdicts []verdict, took time.Duration) error {
	fmt.Println()
	by := map[string]int{}
	caught, equal := 0, 0
	for _, v := range verdicts {
		fmt.Println(v)
		switch {
		case equivalent[v.m.ID()] != "":
			equal++
		case v.caught():
			caught++
			by[v.by]++
		}
	}
	missed := len(verdicts) - caught - equal
	lines := []string{fmt.Sprintf("mutants: %d, caught: %d, equivalent: %d, not caught: %d", len(verdicts), caught, equal, missed)}
	for _, r := range rungs {
		if n := by[r.name]; n > 0 {
			lines = append(lines, fmt.Sprintf("mutants caught by %s: %d", r.name, n))
		}
	}
	lines = append(lines, fmt.Sprintf("mutants took: %.0f min", took.Minutes()))
	fmt.Printf("\n%s\n", strings.Join(lines, "\n"))
	if l.whole {
		var f figure.Figures
		for _, line := range lines {
			f.Campaigns = append(f.Campaigns, figure.Campaign{Origin: figure.Measured("make test-mutants"), Line: line})
		}
		if err := f.Record(l.module, "mutants"); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%d not caught", missed)
	}
	return nil
}
