// Command mutants shows that the tests catch what they are there for. It takes
// the updater's source, removes each sync and each write of the journal, swaps
// each pair of steps whose order matters, one at a time, and runs the tests
// against each until one fails. The tree is not changed: the go command is told
// to read one file from elsewhere.
//
// A mutant that no test catches means that a test is missing, or that the code is
// of no use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", "", "mutants whose line in the list matches this expression")
	list := flag.Bool("list", false, "list the mutants and run nothing")
	jobs := flag.Int("jobs", 2, "mutants at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *list, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, list bool, jobs int) error {
	module, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return fmt.Errorf("run this in the folder of the module: %w", err)
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	all, err := Mutants(module)
	if err != nil {
		return err
	}
	var mutants []Mutant
	for _, m := range all {
		if wanted.MatchString(m.String()) {
			mutants = append(mutants, m)
		}
	}
	if list {
		for _, m := range mutants {
			fmt.Println(m)
		}
		fmt.Printf("%d mutants\n", len(mutants))
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("NOT TESTED: most of the tests that catch mutants need root")
	}
	return judge(ctx, module, mutants, jobs)
}

// Mutants derives all mutants from the updater's source.
func Mutants(module string) ([]Mutant, error) {
	files, err := parse(module)
	if err != nil {
		return nil, err
	}
	var mutants []Mutant
	for _, f := range files {
		mutants = append(mutants, removed(f)...)
	}
	swaps, err := swapped(files)
	mutants = append(mutants, swaps...)
	known := map[string]bool{}
	for _, m := range mutants {
		known[m.ID()] = true
	}
	for id := range equivalent {
		if !known[id] {
			err = errors.Join(err, fmt.Errorf("%q is listed as equivalent and is no mutant any more", id))
		}
	}
	return mutants, err
}

// judge runs the tests against each mutant and prints a line for each.
func judge(ctx context.Context, module string, mutants []Mutant, jobs int) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	begun := time.Now()
	l := ladder{module: module, dir: dir, sound: map[string]bool{}}
	var mu sync.Mutex
	caught := map[string]int{}
	var missed []string
	equal := 0
	slots := make(chan bool, jobs)
	var all sync.WaitGroup
	for n, m := range mutants {
		slots <- true
		all.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			if why := equivalent[m.ID()]; why != "" {
				mu.Lock()
				defer mu.Unlock()
				equal++
				fmt.Printf("%s: EQUIVALENT: %s\n", m, why)
				return
			}
			at := time.Now()
			by, out := l.climb(ctx, fmt.Sprint(n), m)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ctx.Err() != nil:
			case by == "":
				missed = append(missed, m.String())
				fmt.Printf("%s: NOT CAUGHT\n", m)
			case by == notCompiled, by == unsound:
				missed = append(missed, m.String())
				fmt.Printf("%s: %s\n%s\n", m, by, out)
			default:
				caught[by]++
				fmt.Printf("%s: caught by %s (%.0fs)\n", m, by, time.Since(at).Seconds())
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Printf("\n%d mutants, %d equivalent, caught in %v by:\n", len(mutants), equal, time.Since(begun).Round(time.Second))
	for _, r := range rungs {
		if n := caught[r.name]; n > 0 {
			fmt.Printf("%6d  %s\n", n, r.name)
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("%d not caught", len(missed))
	}
	return nil
}
