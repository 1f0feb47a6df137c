package trace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// tree describes what is in a folder, a line each.
func tree(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		fmt.Fprintf(&b, "%s %v %q\n", e.Name(), info.Mode(), data)
	}
	return b.String()
}

func mustRun(t *testing.T, c Command, decide func(Call) Action) Result {
	t.Helper()
	r, err := Run(t.Context(), c, decide)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Stderr)
	}
	return r
}

func TestEveryChangeIsOneCallInItsOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var got []string
	last := 0
	r := mustRun(t, inRole("steps", dir), func(c Call) Action {
		if c.Exit {
			// Removing a folder is tried as a file first.
			if c.Errno != 0 && c.Errno != syscall.EISDIR {
				t.Errorf("%v", c)
			}
			return GoOn()
		}
		if last++; c.Index != last {
			t.Errorf("call %d follows call %d", c.Index, last-1)
		}
		line := c.Name + " " + filepath.Base(c.Path)
		if c.To != "" {
			line += " " + filepath.Base(c.To)
		}
		if filepath.Dir(c.Path) != dir {
			t.Errorf("the path %s is not in %s", c.Path, dir)
		}
		got = append(got, line)
		return GoOn()
	})
	want := []string{
		"openat a", "write a", "fsync a", "fchmodat a", "renameat a b", "symlinkat c", "linkat b d",
		"mkdirat e", "truncate d", "unlinkat e", "unlinkat e", "unlinkat c",
	}
	if r.ExitCode != 0 || r.Killed || r.Calls != len(got) {
		t.Errorf("ended with %+v after %d calls", r, len(got))
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls: %q; want %q", got, want)
	}
}

func TestAKillAtEntryComesBeforeTheCallAndOneAtExitAfterIt(t *testing.T) {
	t.Parallel()
	states := func(exit bool, at int) (string, bool) {
		dir := t.TempDir()
		r := mustRun(t, inRole("steps", dir), func(c Call) Action {
			if c.Index == at && c.Exit == exit {
				return Kill()
			}
			return GoOn()
		})
		if r.Killed && (r.ExitCode != -1 || r.Signal != syscall.SIGKILL) {
			t.Errorf("killed at call %d, but ended with %+v", at, r)
		}
		return tree(t, dir), r.Killed
	}
	distinct := map[string]bool{}
	before, killed := states(false, 1)
	if before != "" {
		t.Errorf("before the first call there is %q", before)
	}
	for at := 1; killed; at++ {
		after, _ := states(true, at)
		distinct[after] = true
		if before, killed = states(false, at+1); before != after {
			t.Errorf("after call %d there is\n%sbefore the next\n%s", at, after, before)
		}
	}
	if len(distinct) != 10 { // all but the sync and a try change what is there
		t.Errorf("there were %d states", len(distinct))
	}
}

func TestAllThreadsAndChildrenShareOneCounter(t *testing.T) {
	t.Parallel()
	opened := map[string]int{}
	threads := map[int]bool{}
	index, exits := 0, 0
	r := mustRun(t, inRole("crowd", t.TempDir()), func(c Call) Action {
		if c.Exit {
			exits++
			return GoOn()
		}
		if index++; c.Index != index {
			t.Errorf("call %d follows call %d", c.Index, index-1)
		}
		threads[c.TID] = true
		if strings.HasPrefix(c.Name, "open") {
			opened[strings.TrimSuffix(filepath.Base(c.Path), ".new")]++
		}
		return GoOn()
	})
	want := map[string]int{"thread0": 10, "thread1": 10, "thread2": 10, "thread3": 10, "child0": 3, "child1": 3}
	for name, n := range want {
		if opened[name] != n {
			t.Errorf("%s was opened %d times; want %d", name, opened[name], n)
		}
	}
	if len(opened) != len(want) || len(threads) < 6 {
		t.Errorf("opened %v on %d threads", opened, len(threads))
	}
	if r.ExitCode != 0 || r.Calls != index || exits != index {
		t.Errorf("%d entries and %d exits, result %+v: %s", index, exits, r, r.Stderr)
	}
}

func TestAKillEndsAllThreadsAndChildren(t *testing.T) {
	t.Parallel()
	for at := 1; at < 130; at += 9 {
		threads := map[int]bool{}
		r := mustRun(t, inRole("crowd", t.TempDir()), func(c Call) Action {
			threads[c.TID] = true
			if c.Index == at {
				return Kill()
			}
			if c.Index > at {
				t.Errorf("%v after the kill", c)
			}
			return GoOn()
		})
		if !r.Killed {
			t.Fatalf("not killed at call %d of %d", at, r.Calls)
		}
		for tid := range threads {
			// What nobody has collected yet is dead all the same.
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", tid))
			if _, rest, _ := strings.Cut(string(data), ") "); err == nil && !strings.HasPrefix(rest, "Z") {
				t.Errorf("thread %d lives: %s", tid, data)
			}
		}
	}
}

func TestAFailedCallIsNotMade(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"openat": "open a: no space left on device", "fsync": "sync a: input/output error", "symlinkat": "symlink b c: read-only file system",
	} {
		errno := map[string]syscall.Errno{"openat": syscall.ENOSPC, "fsync": syscall.EIO, "symlinkat": syscall.EROFS}[name]
		dir := t.TempDir()
		r := mustRun(t, inRole("steps", dir), func(c Call) Action {
			if c.Name == name && c.Exit {
				t.Errorf("%v: a call that was not made has no exit", c)
			}
			if c.Name == name {
				return Fail(errno)
			}
			return GoOn()
		})
		if r.ExitCode != 3 || strings.TrimSpace(string(r.Stderr)) != want {
			t.Errorf("exit code %d, %q; want %q", r.ExitCode, r.Stderr, want)
		}
		if name == "openat" && tree(t, dir) != "" {
			t.Errorf("there is %s", tree(t, dir))
		}
	}
}

func TestNothingRunsWhileAFunctionIsCalledBeforeTheKill(t *testing.T) {
	if testing.Short() {
		t.Skip("it traces a program that spins")
	}
	t.Parallel()
	r := mustRun(t, inRole("spins", t.TempDir()), func(c Call) Action {
		if c.Name != "mkdirat" || !c.Exit {
			return GoOn()
		}
		return KillAfter(func() error {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.TID))
			if err != nil || len(threads) < 4 {
				t.Errorf("%d threads: %v", len(threads), err)
			}
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.TID, c.TID))
			for _, pid := range strings.Fields(string(children)) {
				threads = append(threads, "/proc/"+pid+"/stat")
			}
			for _, stat := range threads {
				data, err := os.ReadFile(stat)
				_, rest, _ := strings.Cut(string(data), ") ")
				if err != nil || !strings.HasPrefix(rest, "t") {
					t.Errorf("%s: %v %s", stat, err, data)
				}
			}
			return nil
		})
	})
	if !r.Killed {
		t.Errorf("result %+v", r)
	}
}

func TestWhatAFunctionReportsIsTheErrorOfTheRun(t *testing.T) {
	t.Parallel()
	broken := errors.New("the power does not go off")
	_, err := Run(t.Context(), inRole("steps", t.TempDir()), func(Call) Action {
		return KillAfter(func() error { return broken })
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestWhatChangesNothingDoesNotCount(t *testing.T) {
	t.Parallel()
	r := mustRun(t, inRole("plain", t.TempDir()), func(c Call) Action {
		t.Errorf("%v counts", c)
		return GoOn()
	})
	if r.ExitCode != 0 {
		t.Errorf("%+v %s", r, r.Stderr)
	}
}

func TestInputOutputAndExitCodePass(t *testing.T) {
	t.Parallel()
	c := inRole("chats", t.TempDir())
	c.Stdin = []byte("a question")
	r := mustRun(t, c, nil)
	if r.ExitCode != 7 || string(r.Stdout) != "heard a question" || string(r.Stderr) != "aside" {
		t.Errorf("%+v", r)
	}
}

func TestTheRuntimeWritesOnTheThreadOfTheTracer(t *testing.T) {
	if f := runtime.FuncForPC(runtimeWrite()); f == nil || f.Name() != runtimeWriteName {
		t.Fatalf("%s is not found in this program, but %v", runtimeWriteName, f)
	}
	t.Parallel()
	c := inRole("wakes", t.TempDir())
	cmd := exec.Command(c.Argv[0])
	cmd.Env = c.Env
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "still here" {
		t.Errorf("ended with %v: %q", err, out)
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Run(ctx, inRole("spins", t.TempDir()), func(c Call) Action {
		if c.Name == "mkdirat" && c.Exit {
			cancel()
		}
		return GoOn()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestChildrenOfOthersAreLeftToThem(t *testing.T) {
	t.Parallel()
	var others, all sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := exec.Command("/bin/true").Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 4 {
		all.Go(func() {
			for range 15 {
				if _, err := Run(t.Context(), inRole("plain", t.TempDir()), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	others.Wait()
}

func TestAProgramThatCannotBeExecutedIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Command{Argv: []string{filepath.Join(t.TempDir(), "none")}}, nil); err == nil {
		t.Error("no error")
	}
}
