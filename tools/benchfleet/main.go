// Command benchfleet takes a large fleet through a rollout, over three servers that share a database of PostgreSQL, and
// prints what that costs: time of a tick, memory, and what the database writes. It never fails because something was slow.
//
//	go run ./tools/benchfleet [-hosts N] [-only rollout,ratios]
//
// The servers are those of teleport-find without their network (answers, inventory, engine), in one process. Their clock
// goes on by ten seconds a round, as fast as all of it is done: in each round every sixtieth host polls and reports, to one
// server or another, and each server syncs, ticks and reads what others wrote. A host that is told to update reports
// success with its next poll. No poll is left out.
//
// ratios compares reports and answers with PostgreSQL to those with SQLite, in turns A B A B, on the same disk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "benchfleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	hosts := flag.Int("hosts", 1_000_000, "how many hosts there are")
	only := flag.String("only", "rollout,ratios", "what to measure")
	flag.Parse()
	if flag.NArg() > 0 || *hosts < 100 {
		return errors.New("see -help")
	}
	for what := range strings.SplitSeq(*only, ",") {
		switch what {
		case "rollout":
			err = withDatabase(func(d *database) error { return rolloutOf(ctx, d, *hosts) })
		case "ratios":
			err = withDatabase(func(d *database) error { return ratios(ctx, d) })
		default:
			err = fmt.Errorf("%q cannot be measured", what)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
