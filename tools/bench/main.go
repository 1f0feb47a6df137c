// Command bench measures the updater against other ways to do the same, on the
// same data and in the same run, and prints ratios: seconds belong to a machine,
// ratios to a design. A goal is the most that a ratio to a bound of the same run
// should be; a goal that is missed is printed as missed and fails nothing.
//
//	go run ./tools/bench [-rounds N] [-dir DIR] [-only PARTS] [-small]
//
// The parts are whole updates against other designs, on a limited link and on a
// limited disk (see scenes.go), the whole program (whole.go), a run that finds
// nothing to do (idle.go), the time without an agent on a booted host
// (downtime.go), and database backups against the sqlite3 shell (backup.go). The
// release is built from real programs (programs.go), once; it stays in DIR. All
// runs are interleaved, A B C A B C, since a machine has moods, and medians are
// told. Every contender is a process of its own, ends with all data on stable
// storage, and starts with nothing on disk.
//
// It wants curl, tar, coreutils and the sqlite3 shell; root for the slow disk (a
// blkio or io cgroup) and for the booted host; and no systemd that runs, for the
// whole updater works in folders that systemd does not know. What cannot be
// measured is said. The figures are left for `make figures`, but for those of a small
// release, which is for a look at whether all of it runs: -small -rounds 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"teleport-update/tools/internal/figure"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		err = children[os.Args[1]](os.Args[2:])
	} else {
		err = run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// children are what this program runs as processes of their own.
var children = map[string]func(args []string) error{
	"decompress": decompress,
	"download":   download,
	"three-pass": threePass,
	"take":       take,
	"restore":    restore,
	"write":      write,
}

// Goals: ratios, but for memory in MiB.
var (
	goalDecompress = atMost(1.08)
	goalThreePass  = atMost(0.35)
	goalThreeZstd  = atMost(0.14)
	goalShell      = atMost(0.55)
	goalLink       = atMost(1.10)
	goalLinkZstd   = atMost(1.05)
	goalDisk       = atMost(1.05)
	goalMemory     = atMost(20)
	goalMemoryZstd = atMost(30)
	goalIdleCPU    = atMost(4)
	goalIdleMemory = atMost(15)
	goalNoDowntime = atMost(0)
	goalDowntime   = atMost(1)
	goalBackup     = atMost(0.70)
	goalBackupMem  = atMost(32)
	goalWriter     = atMost(1)
)

// part is something to measure, and the table of the docs that it belongs to.
type part struct {
	name, table string
	run         func(*bench) error
}

// parts are measured in this order.
var parts = []part{
	{"designs", "updates", (*bench).designs},
	{"link", "updates", (*bench).link},
	{"disk", "updates", (*bench).disk},
	{"updater", "updates", (*bench).updater},
	{"idle", "idle", (*bench).idle},
	{"downtime", "downtime", (*bench).downtime},
	{"backup", "backups", (*bench).backup},
}

func run(ctx context.Context) error {
	rounds := flag.Int("rounds", 5, "how often each is measured")
	dir := flag.String("dir", filepath.Join("build", "bench"), "where the release is kept and the work is done")
	only := flag.String("only", "designs,link,disk,updater,idle,downtime", "`PARTS` to measure; backup is one, too")
	size := flag.Int64("size", 1000, "size of the database to back up, in MB")
	small := flag.Bool("small", false, "take a release of one program, and leave no figures")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 {
		return errors.New("see -help")
	}
	wanted := strings.Split(*only, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			return fmt.Errorf("there is no part %q", name)
		}
	}
	base, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	if *small {
		base = filepath.Join(base, "small")
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(base, "work-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{ctx: ctx, rounds: *rounds, work: work, base: base, size: *size << 20, small: *small}
	if err := b.build(); err != nil {
		return err
	}
	defer b.close()
	var reports []*table
	for _, p := range parts {
		if !slices.Contains(wanted, p.name) {
			continue
		}
		if len(reports) == 0 || reports[len(reports)-1].name != p.table {
			reports = append(reports, newTable(p.table, *rounds))
		}
		b.table = reports[len(reports)-1]
		if err := p.run(b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for _, r := range reports {
		r.print(os.Stdout)
		// A part of a table would take the place of a whole one.
		part := slices.ContainsFunc(parts, func(p part) bool { return p.table == r.name && !slices.Contains(wanted, p.name) })
		if part || len(r.skipped) > 0 || *small {
			fmt.Printf("\nThe table of %s is not left for `make figures`.\n", r.name)
			continue
		}
		f := figure.Figures{Benchmarks: map[string]figure.Benchmark{r.name: r.Benchmark}}
		if err := f.Record(".", "bench-"+r.name); err != nil {
			return err
		}
	}
	return nil
}
