// Command mutants shows that the tests catch what they are there for. It takes
// the updater's source, removes each sync and each write of the journal, swaps
// each pair of steps whose order matters, turns off each check of signatures and of the
// owner's policy, one at a time, and runs the tests
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
	"slices"
	"syscall"
)

func main() {
	only := flag.String("only", "", "mutants whose line in the list matches this expression")
	with := flag.String("rungs", "", "tests whose name in the ladder matches this expression: "+names(rungs))
	list := flag.Bool("list", false, "list the mutants and run nothing")
	jobs := flag.Int("jobs", 2, "mutants at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *only, *with, *list, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, only, with string, list bool, jobs int) error {
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
	steps, err := regexp.Compile(with)
	if err != nil {
		return err
	}
	all, err := Mutants(module)
	if err != nil {
		return err
	}
	mutants := slices.DeleteFunc(all, func(m Mutant) bool { return !wanted.MatchString(m.String()) })
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
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := ladder{module: module, dir: dir, whole: only == "" && with == "", sound: map[string]bool{}}
	l.rungs = slices.DeleteFunc(slices.Clone(rungs), func(r rung) bool { return !steps.MatchString(r.name) })
	return judge(ctx, &l, mutants, jobs)
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
	off, missing := unchecked(files)
	mutants, err = append(mutants, off...), errors.Join(err, missing)
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
