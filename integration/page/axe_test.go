//go:build hosts

package page

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// axe is the program of axe-core, from npm by the committed lock: its digest is checked.
var axe = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(build, "axe")
	program := filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		wanted, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if there, err := os.ReadFile(filepath.Join(dir, name)); err == nil && string(there) == string(wanted) {
			continue
		}
		os.RemoveAll(filepath.Join(dir, "node_modules"))
		if err := os.WriteFile(filepath.Join(dir, name), wanted, 0o644); err != nil {
			return "", err
		}
	}
	if text, err := os.ReadFile(program); err == nil {
		return string(text), nil
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w: %s", err, out)
	}
	text, err := os.ReadFile(program)
	return string(text), err
})

func axeOr(t *testing.T) string {
	t.Helper()
	program, err := axe()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("NOT TESTED: axe-core cannot be had: ", err)
	}
	return program
}

// accessible fails the test for each rule of axe-core that the page breaks. The program is put into the page by the debugger, which
// the page's policy does not bind.
func (b *tab) accessible(what string) {
	b.t.Helper()
	program := axeOr(b.t)
	value[bool](b, "(() => {"+program+"; return true})()")
	found := value[struct {
		Broken []string
		Passed int
	}](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => ({
		Broken: r.violations.map(v => v.id + " (" + v.impact + "): " + v.nodes.map(n => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")),
		Passed: r.passes.length}))`)
	for _, broken := range found.Broken {
		b.t.Errorf("%s: %s", what, broken)
	}
	if found.Passed < 10 {
		b.t.Errorf("%s: only %d rules were looked at", what, found.Passed)
	}
}

// fits fails the test if the page is wider than its window, but for tables that scroll by themselves.
func (b *tab) fits(what string) {
	b.t.Helper()
	if over := value[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
		wide := value[[]string](b, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".wide"))
			.map(e => e.outerHTML.slice(0, 120))`)
		b.t.Errorf("%s is %d pixels wider than its window: %s", what, over, strings.Join(wide, "\n"))
	}
}
