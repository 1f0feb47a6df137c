// Command benchfind measures the find server and prints ratios: seconds belong to a
// machine, ratios to a design. It leaves them for `make figures`, too. It never fails because something was slow.
//
//	go run ./tools/benchfind [-rounds N] [-seconds S] [-hosts N] [-only find,engine,reports,start]
//
// The answers of find are measured against a handler of net/http that always says
// the same, and against nginx where it is installed. All are processes of their own
// with one core each, asked over kept connections of plain HTTP, in turns: A B C
// A B C; medians are told. The server that is measured has a million hosts in the
// plans of twenty groups, and every question is another host's.
//
// With reports, the server has as many hosts that have joined, in a store and in plans under way, and their
// reports arrive evenly in ten minutes while it is asked; so do the constant handler and nginx
// get them.
//
// A start is measured with the program itself, on the same store: when it has answered first, and when it takes reports.
//
// The engine is measured by itself, each in turns with its bound
// (bounds.go): a plan for a million hosts, with its pages in a store, and ticks over
// a million hosts. For a quick look: -hosts 20000 -rounds 1 -seconds 0.2.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"teleport-update/tools/internal/figure"
)

// Goals: ratios, but for memory. That of the rate is the least; all others are the most.
const (
	goalRate   = 0.80
	goalP99    = 1.5
	goalPlan   = 4.0 // to plainPlan
	goalTick   = 6.0 // to pass
	goalMemory = 410 // MB, for a million hosts
	goalStart  = 1   // s, to the first answer with a million hosts in the store
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		err = children[os.Args[1]](ctx, os.Args[2:])
	} else {
		err = run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchfind:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	rounds := flag.Int("rounds", 5, "how often each is measured")
	seconds := flag.Float64("seconds", 2, "how long each is asked")
	hosts := flag.Int("hosts", 1_000_000, "how many hosts there are")
	only := flag.String("only", "engine,find,reports,start", "what to measure")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || *hosts < groups {
		return errors.New("see -help")
	}
	runtime.GOMAXPROCS(1) // the other core is for who is asked
	for what := range strings.SplitSeq(*only, ",") {
		var err error
		switch what {
		case "engine":
			err = measureEngine(ctx, *hosts, *rounds)
		case "find":
			err = measureFind(ctx, *hosts, *rounds, time.Duration(*seconds*float64(time.Second)))
		case "reports":
			err = measureReports(ctx, *hosts, *rounds, time.Duration(*seconds*float64(time.Second)))
		case "start":
			err = measureStart(ctx, *hosts, *rounds)
		default:
			err = fmt.Errorf("-only %s: there are engine, find, reports and start", what)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measureFind asks all contenders in turns.
func measureFind(ctx context.Context, hosts, rounds int, each time.Duration) error {
	contenders, stop := startAll(ctx, hosts,
		&contender{name: "constant net/http", child: "constant"}, &contender{name: "teleport-find", child: "find"},
		&contender{name: "without time limits", child: "bare"}, &contender{name: "nginx", child: "nginx"})
	defer stop()
	asked := requests(hosts)
	for range rounds {
		for _, c := range contenders {
			if err := c.asked(ctx, asked, each); err != nil {
				return err
			}
		}
	}
	base := contenders[0]
	fmt.Printf("\nfind, %d hosts in plans, %d connections, medians of %d\n", hosts, connections, rounds)
	show(contenders)
	var rows []figure.Row
	for _, c := range contenders[1:] {
		rows = append(rows, against(base, c)...)
	}
	return record("find", hosts, rounds, rows...)
}
