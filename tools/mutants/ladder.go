package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// rung is one run of tests.
type rung struct {
	name string
	// pkg has the tests; empty stands for the mutant's own package.
	pkg   string
	args  []string // of the tests
	env   []string // of the tests, beside the mutant's
	only  string   // for mutants whose line in the list matches this expression
	whole bool     // the tests have a part of their cases without FAULTS=all
	// built: the tests have the updater built and look at that, so that they need
	// not be built with each mutant themselves.
	built bool
}

// rungs are run in this order, the cheapest first, until one fails. What only a
// running systemd makes a difference to, only booted hosts can catch: that is
// tried before what needs none and takes long.
var rungs = []rung{
	{name: "the sequences of its package", args: []string{"-test.run=InTheOrderThatSurvives"}, only: "^(internal/durable|backup|installer/host)/"},
	{name: "the order of steps", pkg: "integration/order", args: []string{"-test.run=Order"}, built: true},
	{name: "the owner's policy", pkg: "installer", args: []string{"-test.run=Policy|BelowTheMinimum|SignaturesAreRequired|AnotherTarball|OwnerWouldRefuse|Edition|WayBack"},
		only: `^installer/\w+\.go:.*check removed`},
	{name: "its package's short tests", args: []string{"-test.short"}},
	{name: "its package's tests", whole: true},
	{name: "packages on booted hosts", pkg: "integration/takeover", args: []string{"-test.run=PackageThatComesLater"}, only: "^installer/transaction/(takeover|takenover|packageversion).go", built: true},
	{name: "take-overs killed on booted hosts", pkg: "integration/hostfaults", args: []string{"-test.run=TakeOverKilledAtEveryCall/apt"}, only: "^installer/transaction/(takeover|takenover|packageversion).go", built: true},
	{name: "switches killed on booted hosts", pkg: "integration/hostfaults", args: []string{"-test.run=TransactionKilledAtEveryCall/version_that_fails"},
		env: []string{"FAULTS_POINTS=0-1000000/5"}, only: " (restoreDatabase|recordOldStop): ", built: true},
	{name: "kills", pkg: "integration/faults", args: []string{"-test.run=TestAKilledRun", "-dense"}, built: true},
	{name: "power cuts", pkg: "integration/powercut", args: []string{"-test.run=TestAPowerCut", "-every=3"}, built: true},
}

func names(rungs []rung) string {
	var names []string
	for _, r := range rungs {
		names = append(names, r.name)
	}
	return strings.Join(names, ", ")
}

// What stands for a rung where none caught the mutant.
const (
	notCompiled = "DOES NOT COMPILE"
	unsound     = "these tests fail without the mutant, too"
	endless     = "these tests did not end"
)

// ladder runs tests against mutants.
type ladder struct {
	module, dir string
	rungs       []rung
	whole       bool // all mutants, all tests

	building sync.Mutex

	mu    sync.Mutex
	sound map[string]bool // tests, by their arguments, that pass without a mutant
}

// climb runs the tests against a mutant and returns the rung that caught it, with
// the output.
func (l *ladder) climb(ctx context.Context, name string, m Mutant) (by, output string) {
	dir := filepath.Join(l.dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return notCompiled, err.Error()
	}
	defer os.RemoveAll(dir)
	overlay, err := m.write(l.module, dir)
	if err != nil {
		return notCompiled, err.Error()
	}
	// Tests build the updater themselves, with this too.
	env := append(os.Environ(), "TEST_BUILD_DIR="+dir, "GOFLAGS=-overlay="+overlay)
	if out, err := l.run(ctx, l.module, env, "go", "build", "./"+filepath.Dir(m.File)); err != nil {
		return notCompiled, out
	}
	for _, r := range l.rungs {
		if !regexp.MustCompile(r.only).MatchString(m.String()) {
			continue
		}
		if r.pkg == "" {
			r.pkg = filepath.Dir(m.File)
		}
		out, err := l.test(ctx, r, env, dir)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if strings.Contains(out, "panic: test timed out") {
			return endless, out
		}
		if out, ok := l.isSound(ctx, r); !ok {
			return unsound, out
		}
		return r.name, out
	}
	return "", ""
}

// test builds the tests of a rung and runs them.
func (l *ladder) test(ctx context.Context, r rung, env []string, dir string) (string, error) {
	program := filepath.Join(dir, "tests")
	buildEnv := env
	if r.built {
		program, buildEnv = filepath.Join(l.dir, filepath.Base(r.pkg)+".test"), os.Environ()
	}
	if out, err := l.compile(ctx, r, buildEnv, program); err != nil {
		return out, err
	}
	if r.whole {
		env = append(slices.Clone(env), "FAULTS=all")
	}
	env = append(slices.Clone(env), r.env...)
	args := append([]string{program, "-test.failfast", "-test.timeout=30m"}, r.args...)
	return l.run(ctx, filepath.Join(l.module, r.pkg), env, args...)
}

// compile builds the tests of a rung; those that are built once, once.
func (l *ladder) compile(ctx context.Context, r rung, env []string, program string) (string, error) {
	if r.built {
		l.building.Lock()
		defer l.building.Unlock()
		if _, err := os.Stat(program); err == nil {
			return "", nil
		}
	}
	return l.run(ctx, l.module, env, "go", "test", "-c", "-tags=hosts", "-vet=off", "-o", program, "./"+r.pkg)
}

// isSound makes sure, once, that tests which fail with a mutant do so because of
// it.
func (l *ladder) isSound(ctx context.Context, r rung) (string, bool) {
	key := r.pkg + " " + strings.Join(r.args, " ")
	l.mu.Lock()
	known := l.sound[key]
	l.mu.Unlock()
	if known {
		return "", true
	}
	dir := filepath.Join(l.dir, "none")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error(), false
	}
	out, err := l.test(ctx, r, append(os.Environ(), "TEST_BUILD_DIR="+dir), dir)
	l.mu.Lock()
	l.sound[key] = err == nil
	l.mu.Unlock()
	return out, err == nil
}

// write writes the mutant, and the file that tells the go command to read it.
func (m Mutant) write(module, dir string) (overlay string, err error) {
	path := filepath.Join(dir, "mutant.go")
	if err := os.WriteFile(path, m.Text, 0o644); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(module, m.File): path}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o644)
}

func (l *ladder) run(ctx context.Context, dir string, env []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(env, "CI=true", "CGO_ENABLED=0")
	// An interrupt lets the tests clean up after themselves.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}
