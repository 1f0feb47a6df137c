// Command compare runs a benchmark of two commits in turns, A B A B, each time as a
// whole process, and prints the medians of each figure and their ratio:
//
//	go run ./tools/compare [-rounds N] [-to COMMIT] COMMIT PROGRAM [ARGUMENTS]
//	go run ./tools/compare 8794603d ./tools/benchfind -only reports -rounds 1
//
// PROGRAM is a benchmark of this module that leaves figures for `make figures`. Each
// commit is checked out in a folder of its own and is measured by its own benchmark.
// A machine has moods, so only figures of runs in turns are compared. Benchmarks of
// functions need no program of ours: `go test -bench` and benchstat compare them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
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
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	rounds := flag.Int("rounds", 5, "how often each commit is measured")
	to := flag.String("to", "HEAD", "the `COMMIT` that is compared with the first")
	flag.Parse()
	if flag.NArg() < 2 || *rounds < 1 {
		return errors.New("see -help")
	}
	program, args := flag.Arg(1), flag.Args()[2:]
	dir, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	builds := []*build{{commit: flag.Arg(0), dir: filepath.Join(dir, "a")}, {commit: *to, dir: filepath.Join(dir, "b")}}
	for _, b := range builds {
		defer func() { err = errors.Join(err, b.remove()) }()
		if err := b.make(ctx, program); err != nil {
			return err
		}
	}
	for range *rounds {
		for _, b := range builds {
			if err := b.measure(ctx, args); err != nil {
				return err
			}
		}
	}
	fmt.Print(compared(builds[0], builds[1]))
	return nil
}

// build is a commit, and what was measured of it.
type build struct {
	commit, dir string
	names       []string // of the figures, in their order
	values      map[string][]float64
	units       map[string]string
}

func (b *build) make(ctx context.Context, program string) error {
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, "git", "worktree", "add", "--quiet", "--detach", b.dir, b.commit),
		exec.CommandContext(ctx, "go", "build", "-C", b.dir, "-trimpath", "-o", "build/bench.program", program),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

func (b *build) remove() error {
	if _, err := os.Stat(b.dir); err != nil {
		return nil
	}
	if out, err := exec.Command("git", "worktree", "remove", "--force", b.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("remove %s, the checkout of %s: %w\n%s", b.dir, b.commit, err, out)
	}
	return nil
}

// measure runs the benchmark once and adds the figures that it leaves.
func (b *build) measure(ctx context.Context, args []string) error {
	if err := os.RemoveAll(filepath.Join(b.dir, figure.Folder)); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "measuring", b.commit)
	cmd := exec.CommandContext(ctx, "./build/bench.program", args...)
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the benchmark of %s: %w\n%s", b.commit, err, out)
	}
	left, err := figure.Recorded(b.dir)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return fmt.Errorf("the benchmark of %s leaves no figures", b.commit)
	}
	for _, f := range left {
		b.add(f)
	}
	return nil
}

func (b *build) add(f figure.Figures) {
	if b.values == nil {
		b.values, b.units = make(map[string][]float64), make(map[string]string)
	}
	for _, table := range slices.Sorted(maps.Keys(f.Benchmarks)) {
		for _, row := range f.Benchmarks[table].Rows {
			name := table + ": " + row.What
			if b.values[name] == nil {
				b.names = append(b.names, name)
			}
			b.values[name] = append(b.values[name], row.Value)
			b.units[name] = row.Unit
		}
	}
}

// compared is a table of the figures that both builds have. In each figure, less is better.
func compared(a, b *build) string {
	var out strings.Builder
	fmt.Fprintf(&out, "| medians of %d | %s | %s | ratio |\n| --- | --- | --- | --- |\n", len(a.values[a.names[0]]), a.commit, b.commit)
	for _, name := range a.names {
		if b.values[name] == nil {
			continue
		}
		of, with, ratio := figure.Median(a.values[name]), figure.Median(b.values[name]), "" // a ratio to nothing says nothing
		if of != 0 {
			ratio = fmt.Sprintf("%.2f", with/of)
		}
		unit := strings.TrimRight(" "+a.units[name], " ")
		fmt.Fprintf(&out, "| %s | %.4g%s | %.4g%s | %s |\n", name, of, unit, with, unit, ratio)
	}
	return out.String()
}
