// Command runtests runs the project's tests by `go test` and shows which part runs
// and how far all of it is.
//
//	go run ./tools/runtests [-part NAME] [-v] SUITE…
//
// The suites are packages (every package), hosts (real systemd hosts), and the
// campaigns faults, fleet and nightly. A part is a package, or a campaign of one. Each
// ends with a line:
//
//	[ 7/19] integration/database … ok 93 s
//
// What failed is told at once by name and at the end whole, and the last lines are
// go test's own ("ok  	package	1.2s"). A part that is at work for long says every
// minute which tests it runs. Each package keeps its time limit, after which go
// test ends it and says where it hung; an interrupt is passed on, and what the
// unfinished tests had printed is told. The exit code is go test's.
//
// Lines by which campaigns count ("…, violations: 0") are shown and left for
// `make figures`, but for those of samples that a slow machine cut short.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	part := flag.String("part", "", "run only the part of this `NAME`, as in backup or integration/database")
	verbose := flag.Bool("v", false, "show all that the tests print, as it comes")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: runtests [-part NAME] [-v] %s…\n", strings.Join(suiteNames(), " | "))
		flag.PrintDefaults()
	}
	flag.Parse()
	code, err := run(flag.Args(), *part, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		code = max(code, 2)
	}
	os.Exit(code)
}

func run(names []string, only string, verbose bool) (code int, err error) {
	runs, err := plan(names, only)
	if err != nil {
		return 2, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	begun := time.Now()
	show := newScreen(os.Stdout, verbose)
	for _, r := range runs {
		show.expect(r.parts)
	}
	show.say(expected(names, only, show.all))
	for _, r := range runs {
		if r.warning != "" {
			show.warn(r.warning)
		}
		c, interrupted, err := r.execute(begun, signals, show)
		code = max(code, c)
		if err != nil {
			return max(code, 1), err
		}
		if interrupted {
			break
		}
	}
	show.end(time.Since(begun))
	return code, record(runs)
}
