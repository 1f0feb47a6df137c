//go:build hosts

package guides

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A guide is a Markdown file. Every fenced block in it is one of these, so that a
// new command cannot be printed without being run:
//
//	without a language, or sh      commands: run on a host, in the order of the file
//	yaml, json, ini, text          content: not commands
//
// and comments before a block say more of it:
//
//	<!-- a new host -->            what follows runs on another host than before
//	<!-- a new host: with the package teleport --> see from for what else there is
//	<!-- an image build -->        … in the root of an image that is mounted at /mnt/image
//	<!-- runs until stopped -->    a server: the next blocks run while it does
//	<!-- file: NAME -->            the content is put into that file
//	<!-- file: NAME from OTHER --> that file is copied first
//	<!-- shows -->                 what one sees after the commands before, on a terminal;
//	                               … is for what differs from run to run
//	<!-- silent -->                the commands print nothing
//	<!-- needs a real cluster -->  not run
//	<!-- not run: REASON -->       not run
//
// Other comments are no marks: those around figures (see tools/figures), and those
// that keep a place for what is to be written there.
//
// Commands that are "make TARGET" are not run; the targets must be there. The same
// holds for the pages that belong to a checkout, and for their "go test" lines:
// some take hours.
type block struct {
	guide    string
	line     int
	language string
	marks    []string
	text     string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.guide, b.line) }

// mark returns what follows a mark of that kind.
func (b block) mark(kind string) (string, bool) {
	for _, m := range b.marks {
		if m == kind {
			return "", true
		}
		if rest, ok := strings.CutPrefix(m, kind+": "); ok {
			return rest, true
		}
	}
	return "", false
}

// isRun reports whether the block holds commands to be run.
func (b block) isRun() bool {
	_, needsCluster := b.mark("needs a real cluster")
	_, notRun := b.mark("not run")
	return b.isCommands() && !needsCluster && !notRun && len(b.targets()) == 0
}

func (b block) isCommands() bool {
	switch b.language {
	case "", "sh":
		return true
	}
	return false
}

// ofACheckout reports whether the commands of a page are not run: they belong to a
// checkout of this repository, not to a host.
func ofACheckout(guide string) bool {
	return guide == "CONTRIBUTING.md" || strings.HasPrefix(guide, "docs/development/")
}

// checkLines looks whether what the lines of a page of a checkout name is there.
func (b block) checkLines(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(b.text) {
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

// targets returns those of make, if the block holds nothing else.
func (b block) targets() (targets []string) {
	for line := range strings.Lines(b.text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if fields[0] != "make" || len(fields) < 2 {
			return nil
		}
		for _, f := range fields[1:] {
			if !strings.Contains(f, "=") {
				targets = append(targets, f)
			}
		}
	}
	return targets
}

var (
	comment = regexp.MustCompile(`^<!--\s*(.*?)\s*-->$`)
	// knownMark keeps a mark with a slip of the pen from being none.
	noMark    = regexp.MustCompile(`^(figures: .+|/figures|to be written: .+|written from .+: begin|end)$`)
	knownMark = regexp.MustCompile(`^(shows|silent|a new host(: with .+)?|an image build|runs until stopped|file: \S+( from \S+)?|needs a real cluster(: .+)?|not run: .+)$`)
)

// blocksOf reads the fenced blocks of a guide.
func blocksOf(guide, text string) (blocks []block, err error) {
	var marks []string
	var open *block
	for i, line := range strings.Split(text, "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case open != nil && trimmed == "```":
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(trimmed, "```"):
			open = &block{guide: guide, line: i + 1, language: strings.TrimPrefix(trimmed, "```"), marks: marks}
			marks = nil
			if !open.isCommands() && !strings.Contains(" yaml json ini text mermaid ", " "+open.language+" ") {
				return nil, fmt.Errorf("%s:%d: a block in %q: is it commands (no language) or content (yaml, json, ini, mermaid, text)?", guide, i+1, open.language)
			}
		case strings.HasPrefix(trimmed, "<!--"):
			m := comment.FindStringSubmatch(trimmed)
			if m != nil && noMark.MatchString(m[1]) {
				continue
			}
			if m == nil || !knownMark.MatchString(m[1]) {
				return nil, fmt.Errorf("%s:%d: %s is not a mark that is known", guide, i+1, trimmed)
			}
			marks = append(marks, m[1])
		case trimmed != "" && len(marks) > 0:
			return nil, fmt.Errorf("%s:%d: the marks before this line belong to no block", guide, i+1)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the block has no end", guide, open.line)
	}
	for i, b := range blocks {
		if b.isShown() && (i == 0 || !blocks[i-1].isRun()) {
			return nil, fmt.Errorf("%s shows what commands print, and none are run before it", b)
		}
	}
	return blocks, nil
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

func TestBlocksAreReadWithTheirMarks(t *testing.T) {
	const text = "# Title\n\n<!-- a new host -->\n<!-- runs until stopped -->\n```\na\nb\n```\n\n```yaml\nc: d\n```\n<!-- not run: no reason -->\n```sh\ne\n```\n```\nmake x y=z # w\n```\n"
	blocks, err := blocksOf("g.md", text)
	check(t, err)
	want := []struct {
		at  string
		run bool
	}{{"g.md:5", true}, {"g.md:10", false}, {"g.md:14", false}, {"g.md:17", false}}
	if len(blocks) != len(want) {
		t.Fatalf("%d blocks: %+v", len(blocks), blocks)
	}
	for i, b := range blocks {
		if b.String() != want[i].at || b.isRun() != want[i].run {
			t.Errorf("block %d is at %s, run %v; want %+v", i, b, b.isRun(), want[i])
		}
	}
	if len(blocks[0].marks) != 2 || blocks[0].text != "a\nb\n" || len(blocks[3].targets()) != 1 {
		t.Errorf("%+v", blocks)
	}
	for name, bad := range map[string]string{
		"an unknown mark":      "<!-- not ran: x -->\n```\na\n```\n",
		"an unknown language":  "```console\n$ a\n```\n",
		"a mark of no block":   "<!-- needs a real cluster -->\nText.\n```\na\n```\n",
		"a block without end":  "```\na\n",
		"no reason why not":    "<!-- not run: -->\n```\na\n```\n",
		"shown, and not run":   "<!-- not run: x -->\n```\na\n```\n<!-- shows -->\n```text\nb\n```\n",
		"a mark over two rows": "<!-- needs a\nreal cluster -->\n```\na\n```\n",
	} {
		if blocks, err := blocksOf("g.md", bad); err == nil {
			t.Errorf("%s is taken: %+v", name, blocks)
		}
	}
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
		blocks, err := blocksOf(guide, text)
		if err != nil {
			t.Error(err)
			continue
		}
		var targets []string
		for _, b := range blocks {
			targets = append(targets, b.targets()...)
			if ofACheckout(guide) {
				b.checkLines(t)
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
