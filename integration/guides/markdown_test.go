//go:build hosts

package guides

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teleport-update/integration/markdown"
)

// ofACheckout reports whether the commands of a page are not run: they belong to a
// checkout of this repository, not to a host.
func ofACheckout(guide string) bool {
	return guide == "CONTRIBUTING.md" || strings.HasPrefix(guide, "docs/development/")
}

// checkLines looks whether what the lines of a page of a checkout name is there.
func checkLines(t *testing.T, b markdown.Block) {
	t.Helper()
	for line := range strings.Lines(b.Text) {
		line, _, _ = strings.Cut(line, " #")
		if target := makeLine.FindStringSubmatch(line); target != nil && !hasTarget(t, target[1]) {
			t.Errorf("%s: there is no `make %s`", b, target[1])
		}
		_, arguments, ok := strings.Cut(line, "go test ")
		if !ok {
			continue
		}
		dir := ""
		for f := range strings.FieldsSeq(arguments) {
			if strings.HasPrefix(f, "./") {
				dir = filepath.Join(module, strings.TrimSuffix(f, "/..."))
				if _, err := os.Stat(dir); err != nil {
					t.Errorf("%s: %v", b, err)
				}
			}
		}
		if name := runFlag.FindStringSubmatch(arguments); name != nil && dir != "" {
			files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
			check(t, err)
			there := false
			for _, path := range files {
				data, err := os.ReadFile(path)
				check(t, err)
				there = there || strings.Contains(string(data), "\nfunc "+name[1])
			}
			if !there {
				t.Errorf("%s: there is no test %s in %s", b, name[1], dir)
			}
		}
	}
}

var (
	makeLine = regexp.MustCompile(`^(?:[A-Z_]+=\S+ )*make ([a-z][a-z-]*)`)
	runFlag  = regexp.MustCompile(`-run '?\^?(Test\w+)`)
)

func hasTarget(t *testing.T, name string) bool {
	t.Helper()
	return strings.Contains(file(t, "Makefile"), "\n"+name+":")
}

// guides returns the README, CONTRIBUTING and all of docs/, relative to the module.
func guides(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := fs.Glob(os.DirFS(module), pattern)
		check(t, err)
		list = append(list, found...)
	}
	if len(list) < 6 {
		t.Fatalf("the guides are only %q", list)
	}
	return list
}

var (
	span         = regexp.MustCompile("`([^`\n]+)`")
	testName     = regexp.MustCompile(`^Test\w+$`)
	ofRepository = regexp.MustCompile(`^(packaging|docs|integration|tools)/[\w./-]*$`)
	link         = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	option       = regexp.MustCompile(`(?:^|[\s\[])(--[a-z][a-z-]*)`)
)

// What is mentioned in the text must be there: commands and flags of both
// programs, targets of make, files of the repository.
func TestGuidesSpeakOfWhatThereIs(t *testing.T) {
	t.Parallel()
	tests := testsOfAll(t)
	for _, guide := range guides(t) {
		text := file(t, guide)
		blocks, err := markdown.Read(guide, text)
		if err != nil {
			t.Error(err)
			continue
		}
		var targets []string
		for _, b := range blocks {
			targets = append(targets, b.Targets()...)
			if ofACheckout(guide) {
				checkLines(t, b)
			}
		}
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			fields := strings.Fields(m[1])
			switch {
			case fields[0] == "make" && len(fields) > 1:
				targets = append(targets, strings.TrimRight(fields[1], ".,"))
			case (fields[0] == "teleport-update" || fields[0] == "teleport-find") && len(fields) > 1:
				if problem := checkCommand(t, fields); problem != "" {
					t.Errorf("%s: `%s`: %s", guide, m[1], problem)
				}
			case strings.HasPrefix(m[1], "Test") && testName.MatchString(m[1]):
				if !tests[m[1]] {
					t.Errorf("%s: there is no test %s", guide, m[1])
				}
			case ofRepository.MatchString(m[1]):
				if _, err := os.Stat(filepath.Join(module, m[1])); err != nil {
					t.Errorf("%s: %v", guide, err)
				}
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(module, filepath.Dir(guide), m[1])); err != nil {
				t.Errorf("%s: a link leads nowhere: %v", guide, err)
			}
		}
		for _, target := range targets {
			if !hasTarget(t, target) {
				t.Errorf("%s: there is no `make %s`", guide, target)
			}
		}
	}
}

// testsOfAll are the names of all tests of the repository.
func testsOfAll(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	check(t, filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "build" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(data, -1) {
			tests[string(m[1])] = true
		}
		return err
	}))
	return tests
}

// checkCommand asks a program itself for its commands and flags.
func checkCommand(t *testing.T, fields []string) string {
	t.Helper()
	command := fields[1]
	if strings.HasPrefix(command, "-") {
		command = ""
	}
	help := helpOf(t, fields[0], command)
	if help == "" {
		return "there is no command " + command
	}
	for _, m := range option.FindAllStringSubmatch(strings.Join(fields, " "), -1) {
		if !strings.Contains(help+helpOf(t, fields[0], ""), m[1]+" ") {
			return "there is no flag " + m[1]
		}
	}
	return ""
}
