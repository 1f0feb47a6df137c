package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"teleport-update/integration/host"
	"teleport-update/tools/internal/figure"
)

// bench is one run of the program.
type bench struct {
	ctx    context.Context
	rounds int
	base   string // where the release is kept
	work   string
	size   int64 // of the database, in bytes
	small  bool  // a quick look

	table *table // of the part that runs

	in     inputs  // of serve
	server *server // nil until serve

	self, fetch, updaterPath string
	procs                    string // the cgroup.procs that children join, if any
}

// serve makes the release available, once.
func (b *bench) serve() (err error) {
	if b.server != nil {
		return nil
	}
	if b.in, err = prepare(b.ctx, b.base, b.small); err != nil {
		return err
	}
	b.server, err = serve(b.in)
	return err
}

// sizes are what a report on updates says of the release.
func (b *bench) sizes() string {
	return fmt.Sprintf("Release: %d MB as tar, %d MB as gzip -6, %d MB as zstd.", b.in.plainN/1e6, b.in.gzipN/1e6, b.in.zstdN/1e6)
}

func (b *bench) close() {
	if b.server != nil {
		b.server.Close()
	}
}

// build makes the programs that are measured.
func (b *bench) build() (err error) {
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	b.fetch, err = host.Build(b.ctx, host.Program{Name: "bench-fetch", Package: "./tools/bench/fetch"})
	if err != nil {
		return err
	}
	b.updaterPath, err = host.Build(b.ctx, host.Updater())
	return err
}

// contender is one way to do the work. Its argv may use DIR, a new folder.
type contender struct {
	name string
	argv []string
	env  []string // beside that of this process
}

// child is the contender that is a function of this program.
func (b *bench) child(name string, args ...string) contender {
	return contender{name, append([]string{b.self, name}, args...), nil}
}

// interleave runs the contenders in turn and returns the median wall time of
// each. A first round, not counted, warms the caches.
func (b *bench) interleave(contenders ...contender) (map[string]time.Duration, error) {
	walls := make(map[string][]time.Duration)
	for round := range b.rounds + 1 {
		for _, c := range contenders {
			wall, err := b.once(c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			fmt.Fprintf(os.Stderr, "%-40s %6.2f s\n", c.name, wall.Seconds())
			if round > 0 {
				walls[c.name] = append(walls[c.name], wall)
			}
		}
	}
	medians := make(map[string]time.Duration)
	for name, w := range walls {
		medians[name] = figure.Median(w)
	}
	return medians, nil
}

// once runs a contender in a new folder, on a disk that has nothing to do.
func (b *bench) once(c contender) (time.Duration, error) {
	dir, err := os.MkdirTemp(b.work, "run-")
	if err != nil {
		return 0, err
	}
	defer func() {
		os.RemoveAll(dir)
		unix.Sync()
	}()
	unix.Sync()
	cmd := b.command(c, dir)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, out)
	}
	return time.Since(start), nil
}

func (b *bench) command(c contender, dir string) *exec.Cmd {
	argv := slices.Clone(c.argv)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "DIR", dir)
	}
	if b.procs != "" {
		argv = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, b.procs}, argv...)
	}
	cmd := exec.CommandContext(b.ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	if c.env != nil {
		cmd.Env = append(os.Environ(), c.env...)
	}
	return cmd
}

// memory runs a contender once, traced, and returns its VmHWM in KiB. The
// kernel is asked just before the process gives its memory back: what a parent
// is told afterwards includes the parent's own, from before the exec.
func (b *bench) memory(c contender) (kib int64, err error) {
	dir, err := os.MkdirTemp(b.work, "run-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	cmd := b.command(c, dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return 0, err
	}
	if err := syscall.PtraceSetOptions(pid, unix.PTRACE_O_TRACEEXIT|unix.PTRACE_O_EXITKILL); err != nil {
		return 0, err
	}
	for signal := 0; ; {
		if err := syscall.PtraceCont(pid, signal); err != nil {
			return 0, err
		}
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
			return 0, err
		}
		switch {
		case status.Exited() && status.ExitStatus() == 0:
			return kib, nil
		case !status.Stopped():
			return 0, fmt.Errorf("%s ended with %#x", c.name, uint32(status))
		case status.TrapCause() == unix.PTRACE_EVENT_EXIT:
			signal = 0
			if kib, err = highWater(pid); err != nil {
				return 0, err
			}
		default:
			signal = int(status.StopSignal())
		}
	}
}

func highWater(pid int) (int64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("the status of process %d has no VmHWM", pid)
}

// memories is the largest of some runs: what an operator must have.
func (b *bench) memories(c contender, runs int) (kib int64, err error) {
	for range runs {
		k, err := b.memory(c)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", c.name, err)
		}
		kib = max(kib, k)
	}
	return kib, nil
}
