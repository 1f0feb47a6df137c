//go:build hosts

package hostile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// hostile is one case.
type hostile struct {
	name string // a sentence: what is given
	// serves changes what the server does, before it is started; given changes the
	// host.
	serves func(*world)
	given  func(*world)
	// bare is a host where the updater was never enabled.
	bare bool
	// run is the command; "update" where it is empty.
	run []string
	// code is the exit code; what is not given means 1.
	code code
	// says is in the one error or, with code 0, in a log line; "…" stands for any
	// words between.
	says string
	// becomes is the version that is active afterwards; empty: nothing changes
	// but what always may.
	becomes string
	// may lists paths below the world's folder that may change, too; a star at the
	// end stands for the rest of a name.
	may []string
	// check looks at what else must be so.
	check func(*world, result)
	// after undoes what the given did, before the world is looked at again.
	after func(*world)
	// patience is how long it may take where that is more than a moment.
	patience time.Duration
	// waits says that it mostly waits, for a limit or between attempts.
	waits bool
	// long cases wait for limits again and again, and run in the whole campaign.
	long bool
}

type code int

const (
	failed code = iota // 1; what most cases end with
	done               // 0
	usage              // 2
	person             // 4
	either             // 0 or 1: what is given may be meant
)

func (c code) number() int {
	return map[code]int{failed: 1, done: 0, usage: 2, person: 4, either: 1}[c]
}

const (
	// patience is for a loaded machine: no case computes for a second.
	patience = 2 * time.Minute
	// memory is what the updater may take at most, in KiB.
	memory = 160 << 10
)

// kinds of cases, each from a file of its own.
var kinds = []struct {
	name  string
	cases func() []hostile
}{
	{"tar", tarCases},
	{"truncation", truncationCases},
	{"find", findCases},
	{"checksum", checksumCases},
	{"template", templateCases},
	{"state", stateCases},
	{"trust", trustCases},
	{"policy", policyCases},
	{"host_uuid", hostUUIDCases},
	{"proc", procCases},
	{"environment", environmentCases},
	{"network", networkCases},
	{"stall", stallCases},
	{"words", wordCases},
}

// busy bounds the cases that compute at one time; those that wait are beside
// them.
var busy = make(chan struct{}, 3*runtime.GOMAXPROCS(0))

var figures struct {
	cases, violations, skipped atomic.Int64
	mu                         sync.Mutex
	kinds                      map[string]int
}

func report(w io.Writer) {
	var parts []string
	for _, k := range kinds {
		if n := figures.kinds[k.name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k.name, n))
		}
	}
	fmt.Fprintf(w, "hostile cases: %d (%s), left to the whole campaign: %d, violations: %d\n",
		figures.cases.Load(), strings.Join(parts, ", "), figures.skipped.Load(), figures.violations.Load())
}

func TestHostileInput(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			for _, c := range k.cases() {
				if seen[c.name] {
					t.Errorf("two cases are named %q", c.name)
				}
				seen[c.name] = true
				if c.long && !full {
					figures.skipped.Add(1)
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					figures.cases.Add(1)
					figures.mu.Lock()
					if figures.kinds == nil {
						figures.kinds = map[string]int{}
					}
					figures.kinds[k.name]++
					figures.mu.Unlock()
					defer func() {
						if t.Failed() {
							figures.violations.Add(1)
						}
					}()
					if !c.waits {
						busy <- struct{}{}
						defer func() { <-busy }()
					}
					c.test(t)
				})
			}
		})
	}
}

func (c hostile) test(t *testing.T) {
	w := newWorld(t)
	w.tarball = sound("1.1.0")
	if c.bare {
		w.must(errors.Join(os.RemoveAll(w.store()), os.RemoveAll(w.data("updater")), os.RemoveAll(w.links()), os.RemoveAll(w.units())))
	}
	if c.serves != nil {
		c.serves(w)
	}
	w.serve()
	t.Cleanup(w.stop)
	if !c.bare {
		w.settings()
	}
	if c.given != nil {
		c.given(w)
	}
	before := snapshot(w.dir)
	config := w.configuration()
	command := c.run
	if len(command) == 0 {
		command = []string{"update"}
	}
	for i, arg := range command {
		command = slices.Clone(command)
		command[i] = strings.NewReplacer("$PROXY", w.proxy, "$TEMPLATE", first(w.templates), "$CA", w.caFile, "$WORLD", w.dir).Replace(arg)
	}
	limit := max(c.patience, patience)
	if c.waits {
		limit = max(limit, 2*time.Minute)
	}
	// With all that can be told, in case a secret is among it.
	r := w.runFor(limit, append([]string{"--debug"}, command...)...)
	if c.after != nil {
		c.after(w)
	}
	after := snapshot(w.dir)

	t.Logf("exit code %d after %v:\n%s", r.code, r.took.Round(time.Millisecond), r.stderr)
	c.checkExit(t, r)
	if r.memory > memory {
		t.Errorf("the updater took %d MiB of memory", r.memory>>10)
	}
	if c.becomes == "" {
		c.checkSame(t, w, before, after)
		if now := w.configuration(); c.code != either && !reflect.DeepEqual(config, now) {
			t.Errorf("the configuration became %v; was %v", now, config)
		}
	} else {
		w.runs(c.becomes)
		// Whatever became of the versions, all else is somebody else's.
		for _, line := range before.without(w.store(), w.links(), w.units(), w.data("updater")).diff(after.without(w.store(), w.links(), w.units(), w.data("updater"))) {
			if !c.mayChange(w, line) {
				t.Errorf("something outside changed: %s", line)
			}
		}
	}
	w.checkPartial()
	if c.check != nil {
		c.check(w, r)
	}
	said := r.stdout + r.stderr
	status := w.runFor(limit, "--debug", "--log-format", "json", "status", "--format", "json")
	if strings.Contains(status.stderr, "panic") || status.code != 0 && status.code != 1 && status.code != -9 {
		t.Errorf("status ends with %d:\n%s", status.code, status.stderr)
	}
	w.checkTerminal(limit)
	w.discreet("what it printed", said)
	w.discreet("status", status.stdout+status.stderr)
	w.checkReadable(before)
}

type result struct {
	code           int
	stdout, stderr string
	took           time.Duration
	timeout        bool
	silent         bool  // nothing could be printed
	memory         int64 // KiB
}

// run is runFor in an ordinary case.
func (w *world) run(args ...string) result { return w.runFor(patience, args...) }

func (w *world) runFor(limit time.Duration, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	all := append([]string{"--data-dir", w.data(), "--link-dir", w.links(), "--unit-dir", w.units(), "--agent-config", w.agentConfig()}, args...)
	cmd := exec.CommandContext(ctx, fixture.updater, all...)
	if w.shell != "" || w.stdio != "" {
		cmd = exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", w.shell + "\nexec \"$0\" \"$@\" " + w.stdio, fixture.updater}, all...)...)
	}
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + w.dir}, w.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	begun := time.Now()
	r := result{silent: strings.Contains(w.stdio, "2>")}
	err := cmd.Start()
	if err == nil {
		stop := make(chan struct{})
		var watched sync.WaitGroup
		watched.Go(func() { r.memory = peak(cmd.Process.Pid, stop) })
		err = cmd.Wait()
		close(stop)
		watched.Wait()
	}
	r.took, r.stdout, r.stderr = time.Since(begun), stdout.String(), stderr.String()
	r.timeout = ctx.Err() != nil
	switch exit, ok := errors.AsType[*exec.ExitError](err); {
	case ok:
		r.code = exit.ExitCode()
	case err != nil:
		r.code = -1
		r.stderr += err.Error()
	}
	return r
}

// peak reads how much memory a process has taken until it ends, in KiB.
func peak(pid int, stop chan struct{}) (most int64) {
	for {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := strings.Cut(string(data), "VmHWM:"); ok && !strings.HasPrefix(string(data), "Name:\tsh\n") {
			if fields := strings.Fields(rest); len(fields) > 0 {
				n, _ := strconv.ParseInt(fields[0], 10, 64)
				most = max(most, n)
			}
		}
		select {
		case <-stop:
			return most
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func notFound(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

func digestOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
