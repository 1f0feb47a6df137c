package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
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
	return report(verdicts, time.Since(begun))
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

// report prints the table and the figures.
func report(verdicts []verdict, took time.Duration) error {
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
	fmt.Printf("\nin %v, caught by:\n", took.Round(time.Second))
	for _, r := range rungs {
		if n := by[r.name]; n > 0 {
			fmt.Printf("%6d  %s\n", n, r.name)
		}
	}
	missed := len(verdicts) - caught - equal
	fmt.Printf("mutants: %d, caught: %d, equivalent: %d, not caught: %d\n", len(verdicts), caught, equal, missed)
	if missed > 0 {
		return fmt.Errorf("%d not caught", missed)
	}
	return nil
}
