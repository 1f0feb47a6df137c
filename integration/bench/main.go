// Command bench measures updates against other ways to do the same, on the same
// release and in the same run, and prints ratios: seconds belong to a machine,
// ratios to a design.
//
//	go run ./integration/bench [-rounds N] [-dir DIR] [-only WORDS]
//
// The release is built from real programs (see programs.go), once; it stays in
// DIR. All runs are interleaved, A B C A B C, since a machine has moods, and
// medians are told. Every contender is a process of its own, ends with all data
// on stable storage, and starts with nothing on disk.
//
// It wants curl, tar and coreutils for the shell's way; root for the slow disk
// (a blkio or io cgroup); and no systemd that runs, for the whole updater works
// in folders that systemd does not know. What cannot be measured is said.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
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

// goals are ratios that must not be passed, but for memory (MiB) and CPU (ms).
const (
	goalDecompress = 1.10
	goalThreePass  = 0.40
	goalThreeZstd  = 0.15
	goalShell      = 0.55
	goalLink       = 1.25
	goalLinkZstd   = 1.08
	goalDisk       = 1.05
	goalMemory     = 24
	goalMemoryZstd = 40
	goalIdleCPU    = 8
	goalIdleMemory = 14
)

func run(ctx context.Context) error {
	rounds := flag.Int("rounds", 5, "how often each is measured")
	dir := flag.String("dir", filepath.Join("build", "bench"), "where the release is kept and the work is done")
	only := flag.String("only", "designs,link,disk,updater", "what to measure")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 {
		return errors.New("see -help")
	}
	base, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	in, err := prepare(ctx, base)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(base, "work-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	b := &bench{ctx: ctx, rounds: *rounds, work: work, in: in, report: newReport(in, *rounds)}
	if err := b.build(); err != nil {
		return err
	}
	server, err := serve(in)
	if err != nil {
		return err
	}
	defer server.Close()
	b.server = server
	for _, part := range []struct {
		name string
		run  func() error
	}{{"designs", b.designs}, {"link", b.link}, {"disk", b.disk}, {"updater", b.updater}} {
		if !strings.Contains(*only, part.name) {
			continue
		}
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	b.report.print(os.Stdout)
	return nil
}
