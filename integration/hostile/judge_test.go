//go:build hosts

package hostile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"teleport-update/internal/console/consoletest"
	"teleport-update/internal/regular"

	"go.yaml.in/yaml/v3"
)

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
	}
	for name, text := range map[string]string{"stdout": r.stdout, "stderr": r.stderr} {
		if err := consoletest.Check(text, true); err != nil {
			t.Errorf("%s: %v", name, err)
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

var failedVersion = regexp.MustCompile(`(?m)^  failed:\n    version: (\S+)$`)

// checkSame asserts that the host is as it was, but for what always may change.
func (c hostile) checkSame(t *testing.T, w *world, before, after tree) {
	t.Helper()
	always := []string{w.config(), w.store("find.json"), w.store("history.json"), w.store("update_config.yaml"), w.store("update.lock"), w.store("fetch.lock"), w.store("partial")}
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
	// A version that failed stays on disk for its next attempt.
	kept := w.store("none")
	// What the case made of the file may be endless, or a pipe.
	if config, err := regular.Read(w.config(), 1<<20, regular.NoLink); err == nil {
		if failed := failedVersion.FindSubmatch(config); failed != nil {
			kept = w.store(string(failed[1]))
		}
	}
	changes := 0
	for _, line := range before.diff(after) {
		path, _, _ := strings.Cut(line, ": ")
		regular := before[path] == "" || strings.HasPrefix(before[path], "-")
		if slices.ContainsFunc(always, func(p string) bool { return path == p || p == w.store("partial") && strings.HasPrefix(path, p+"/") }) && (regular || path == w.store("partial")) {
			continue
		}
		if strings.Contains(line, ": added: ") && (path == kept || strings.HasPrefix(path, kept+"/")) {
			continue
		}
		if changes < 5 && !c.mayChange(w, line) {
			t.Errorf("the host changed: %s", line)
			changes++
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
