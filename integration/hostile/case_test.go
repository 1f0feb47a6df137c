//go:build hosts

package hostile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

	"go.yaml.in/yaml/v3"
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
	patience = 30 * time.Second
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
	{"host_uuid", hostUUIDCases},
	{"proc", procCases},
	{"environment", environmentCases},
	{"network", networkCases},
	{"stall", stallCases},
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
	status := w.runFor(limit, "--debug", "--log-format", "json", "status")
	if strings.Contains(status.stderr, "panic") || status.code != 0 && status.code != 1 && status.code != -9 {
		t.Errorf("status ends with %d:\n%s", status.code, status.stderr)
	}
	w.discreet("what it printed", said)
	w.discreet("status", status.stdout+status.stderr)
	w.checkReadable(before)
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (c hostile) mayChange(w *world, line string) bool {
	path, _, _ := strings.Cut(line, ": ")
	for _, may := range c.may {
		may = filepath.Join(w.dir, may)
		begun, open := strings.CutSuffix(may, "*")
		if path == may || strings.HasPrefix(path, may+"/") || open && strings.HasPrefix(path, begun) {
			return true
		}
	}
	return false
}

func (c hostile) checkExit(t *testing.T, r result) {
	t.Helper()
	if r.timeout {
		t.Fatalf("it hangs: stopped after %v", r.took)
	}
	if c.code == either && r.code == 0 {
		return
	}
	if want := c.code.number(); r.code != want {
		t.Errorf("exit code %d; want %d", r.code, want)
	}
	var errs []string
	for line := range strings.Lines(r.stderr) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "error: "); ok {
			errs = append(errs, text)
		} else if c.code == usage {
			errs = append(errs, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			t.Errorf("a control character is printed: %q", line)
		}
	}
	for _, word := range []string{"panic:", "goroutine", "%!", "<nil>", "runtime error"} {
		if strings.Contains(r.stderr, word) {
			t.Errorf("it prints %q", word)
		}
	}
	if c.code == done {
		if !c.said(r.stderr + r.stdout) {
			t.Errorf("it does not say %q", c.says)
		}
		return
	}
	if r.silent {
		return
	}
	if len(errs) == 0 {
		t.Error("there is no error")
		return
	}
	last := errs[len(errs)-1]
	if len(errs) > 1 && !strings.Contains(errs[0], "it is fetched again") { // what repair finds, before it fails
		t.Errorf("want one error, found %d", len(errs))
	}
	if !c.said(last) {
		t.Errorf("the error does not say %q:\n%s", c.says, last)
	}
	if len(last) > 6000 {
		t.Errorf("the error is %d bytes long", len(last))
	}
	stays := []string{"nothing was changed", "the agent stays on", "the agent is on", "nothing else was changed"}
	if c.code == failed && !slices.ContainsFunc(stays, func(s string) bool { return strings.Contains(last, s) }) {
		t.Errorf("the error does not say what state the host is in:\n%s", last)
	}
}

func (c hostile) said(text string) bool {
	for part := range strings.SplitSeq(c.says, "…") {
		_, after, ok := strings.Cut(text, part)
		if !ok {
			return false
		}
		text = after
	}
	return true
}

// checkSame asserts that the host is as it was, but for what always may change.
func (c hostile) checkSame(t *testing.T, w *world, before, after tree) {
	t.Helper()
	always := []string{w.config(), w.store("find.json"), w.store("update.lock"), w.store("fetch.lock"), w.store("partial")}
	if c.bare { // the folder of the locks
		always = append(always, w.store())
		if entries, err := os.ReadDir(w.store()); err == nil {
			for _, e := range entries {
				if !slices.Contains(always, w.store(e.Name())) && !c.mayChange(w, w.store(e.Name())) {
					t.Errorf("left behind: %s", w.store(e.Name()))
				}
			}
		}
	}
	told := 0
	for _, line := range before.diff(after) {
		path, _, _ := strings.Cut(line, ": ")
		regular := before[path] == "" || strings.HasPrefix(before[path], "-")
		if slices.ContainsFunc(always, func(p string) bool { return path == p || p == w.store("partial") && strings.HasPrefix(path, p+"/") }) && (regular || path == w.store("partial")) {
			continue
		}
		if told < 5 && !c.mayChange(w, line) {
			t.Errorf("the host changed: %s", line)
			told++
		}
	}
}

// checkPartial asserts that nothing half done is left.
func (w *world) checkPartial() {
	w.t.Helper()
	entries, _ := os.ReadDir(w.store("partial"))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			w.t.Errorf("left in partial/: %s", e.Name())
		}
	}
}

// configuration is updates.yaml without its status, as a person means it; the
// text itself where it is none.
func (w *world) configuration() any {
	info, err := os.Lstat(w.config())
	if err != nil {
		return nil
	}
	if !info.Mode().IsRegular() || info.Size() > 1<<20 {
		return describe(w.config())
	}
	text := w.read(w.config())
	var m map[string]any
	if yaml.Unmarshal([]byte(text), &m) != nil || m == nil {
		return text
	}
	delete(m, "status")
	prune(m)
	if reflect.DeepEqual(m, map[string]any{"version": "v1", "kind": "agent_versions", "spec": map[string]any{"proxy": "", "enabled": false, "pinned": false}}) {
		return nil // it says nothing
	}
	return m
}

func prune(m map[string]any) {
	for name, value := range m {
		if inner, ok := value.(map[string]any); ok {
			if prune(inner); len(inner) == 0 {
				delete(m, name)
			}
		}
	}
}

// runs asserts that all leads to one version.
func (w *world) runs(v string) {
	w.t.Helper()
	if got, err := os.Readlink(filepath.Join(w.links(), "teleport")); got != w.store(v, "bin", "teleport") {
		w.t.Errorf("teleport leads to %q (%v); want version %s", got, err, v)
	}
	if text := w.read(w.config()); !strings.Contains(text, "active_version: "+v+"\n") {
		w.t.Errorf("version %s is not active:\n%s", v, text)
	}
	if _, err := os.Lstat(w.store("journal.json")); !errors.Is(err, fs.ErrNotExist) {
		w.t.Error("a journal is open")
	}
	if r := w.runFor(patience, "verify"); r.code != 0 {
		w.t.Errorf("verify: %s%s", r.stdout, r.stderr)
	}
}

// discreet fails the test for each secret in a text. What is in the path of a
// URL is no secret.
func (w *world) discreet(where, text string) {
	w.t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(text, "/planted-no-secret/", "/")) {
		if strings.Contains(line, planted) {
			w.t.Errorf("%s tells a secret: %s", where, line)
		}
	}
}

// checkReadable looks for secrets in what others than root may read.
func (w *world) checkReadable(before tree) {
	w.t.Helper()
	_ = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o044 == 0 || info.Size() > 1<<20 || before[path] == describe(path) {
			return nil
		}
		if data, err := os.ReadFile(path); err == nil {
			w.discreet(path, string(data))
		}
		return nil
	})
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
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
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

// oneVersion asserts that whatever became of the host, one whole version is
// linked, and the unit is its own.
func (w *world) oneVersion() {
	w.t.Helper()
	leads := map[string]bool{}
	for _, name := range []string{"teleport", "tsh", "tctl"} {
		target, err := os.Readlink(filepath.Join(w.links(), name))
		if _, statErr := os.Stat(target); err != nil || statErr != nil {
			w.t.Errorf("%s leads to %q: %v, %v", name, target, err, statErr)
		}
		leads[filepath.Dir(target)] = true
	}
	if len(leads) != 1 {
		w.t.Errorf("links lead to %v", leads)
	}
}

func notFound(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

func digestOf(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
