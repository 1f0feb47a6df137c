// Command ceilings says which functions are more tangled than the ceiling: gocognit's figure grows with each
// branch, and more with each branch inside of another. Functions of exceptions.txt may keep the figure that
// stands there, and no more:
//
//	ceilings FOLDER
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const ceiling = 25

//go:embed exceptions.txt
var exceptions string

// function is one as gocognit shows it.
type function struct {
	Name   string `json:"FuncName"`
	Figure int    `json:"Complexity"`
	Pos    struct {
		Filename string
		Line     int
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ceilings FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string) error {
	allowed, err := parse(exceptions)
	if err != nil {
		return err
	}
	found, err := measure(folder)
	if err != nil {
		return err
	}
	return compare(found, allowed)
}

// parse reads lines of a figure, a file and a function, as in "30 systemd/view.go (*View).add". Lines that
// begin with # are for people.
func parse(text string) (map[string]int, error) {
	allowed := map[string]int{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		figure, name, _ := strings.Cut(line, " ")
		var n int
		if _, err := fmt.Sscan(figure, &n); err != nil || name == "" {
			return nil, fmt.Errorf("exceptions.txt: %q is no figure with a file and a function", line)
		}
		allowed[name] = n
	}
	return allowed, nil
}

// measure has gocognit, which tools.mod pins, list the functions above the ceiling, but those of tests and of
// what is unpacked in build.
func measure(folder string) (map[string]int, error) {
	cmd := exec.Command("go", "tool", "-modfile=tools.mod", "gocognit", "-test=false", "-ignore", "^build/",
		"-json", "-over", fmt.Sprint(ceiling), ".")
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.Output()
	var functions []function
	// Its exit code says too that there are such functions.
	if wrong := json.Unmarshal(out, &functions); wrong != nil {
		return nil, fmt.Errorf("gocognit: %w", errors.Join(err, wrong))
	}
	found := map[string]int{}
	for _, f := range functions {
		found[filepath.ToSlash(filepath.Clean(f.Pos.Filename))+" "+f.Name] = f.Figure
	}
	return found, nil
}

// compare has each function under its ceiling, and no exception that is not needed or could be lower.
func compare(found, allowed map[string]int) error {
	var errs []error
	for name, figure := range found {
		switch most, ok := allowed[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("%s: its figure is %d, and the ceiling is %d: name its steps", name, figure, ceiling))
		case figure > most:
			errs = append(errs, fmt.Errorf("%s: its figure is %d, and was %d: an exception may only shrink", name, figure, most))
		case figure < most:
			errs = append(errs, fmt.Errorf("%s: its figure is %d: write it down in exceptions.txt in place of %d", name, figure, most))
		}
	}
	for name := range allowed {
		if _, ok := found[name]; !ok {
			errs = append(errs, fmt.Errorf("%s is under the ceiling, or gone: take its line out of exceptions.txt", name))
		}
	}
	return errors.Join(errs...)
}
