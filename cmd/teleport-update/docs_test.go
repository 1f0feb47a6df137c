package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/layout"
)

var (
	pageLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	notInID  = regexp.MustCompile(`[^\pL\pN\- _]`)
)

// pages are the Markdown files that people read, without what stands in blocks of code.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = fenced.ReplaceAllString(string(data), "")
		}
	}
	if len(texts) < 10 {
		t.Fatalf("only %d pages were found", len(texts))
	}
	return texts
}

// anchors are the names by which links reach the headings of a page.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		id := notInID.ReplaceAllString(strings.ToLower(m[1]), "")
		names[strings.ReplaceAll(id, " ", "-")] = true
	}
	return names
}

func TestLinksOfTheDocsLeadSomewhere(t *testing.T) {
	texts := pages(t)
	followed := 0
	for path, text := range texts {
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			followed++
			target := path
			if to != "" {
				target = filepath.Join(filepath.Dir(path), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", path, m[1])
				continue
			}
			if page, ok := texts[target]; ok && anchor != "" && !anchors(page)[anchor] {
				t.Errorf("%s: %s has no heading %q", path, to, anchor)
			}
		}
	}
	if followed < 50 {
		t.Errorf("only %d links were followed", followed)
	}
}

func TestTheIndexHasEveryPage(t *testing.T) {
	index, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := os.DirFS("../../docs")
	files, err := fs.Glob(docs, "*.*")
	if err != nil {
		t.Fatal(err)
	}
	developers, err := fs.Glob(docs, "*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, developers...) {
		if name == "README.md" || name == "demo.svg" || name == "page.png" { // pictures are in pages
			continue
		}
		if !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md does not have %s", name)
		}
	}
}

// TestTheArchitectureNamesWhatIsThere: each file that the page names, and the functions that answer its three questions.
func TestTheArchitectureNamesWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/development/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile("`([a-z-]+/[a-z/-]+\\.go)`").FindAllStringSubmatch(string(page), -1)
	for _, m := range files {
		if _, err := os.Stat("../../" + m[1]); err != nil {
			t.Errorf("the page names a file that is not there: %v", err)
		}
	}
	answers := regexp.MustCompile("(?m)^\\| .*\\? \\| `(.*\\.go)` \\| `(\\w+)`").FindAllStringSubmatch(string(page), -1)
	for _, m := range answers {
		text, err := os.ReadFile("../../" + m[1])
		if err != nil || !strings.Contains(string(text), "\nfunc "+m[2]+"(") {
			t.Errorf("%s has no function %s (%v)", m[1], m[2], err)
		}
	}
	if len(files) < 15 || len(answers) != 2 {
		t.Errorf("only %d files and %d answers were found", len(files), len(answers))
	}
}

// TestThePageOfFilesHasEveryPath: each path of the updater's, and what the packages
// put where a person may look for it.
func TestThePageOfFilesHasEveryPath(t *testing.T) {
	text, err := os.ReadFile("../../docs/files.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "`, `fetch.lock", "`, `/var/lib/teleport/versions/fetch.lock")
	paths := state.DefaultPaths()
	paths.RunDir = layout.RunDir
	var wanted []string
	for _, method := range reflect.ValueOf(paths).Methods() {
		if path, ok := method.Interface().(func() string); ok {
			wanted = append(wanted, path())
		}
	}
	installed := regexp.MustCompile(`dst: (/etc/[^,]+|/usr/bin/[^,]+|/usr/lib/[^,]+)`)
	for _, program := range []string{"teleport-update", "teleport-find"} {
		list, err := os.ReadFile("../../packaging/" + program + "/nfpm.yaml")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range installed.FindAllStringSubmatch(string(list), -1) {
			wanted = append(wanted, m[1])
		}
	}
	for _, path := range wanted {
		if !strings.Contains(page, path) {
			t.Errorf("docs/files.md does not have %s", path)
		}
	}
	if len(wanted) < 20 {
		t.Errorf("only these paths were looked for: %q", wanted)
	}
}

// Troubleshooting quotes no sentence that the programs do not say. What differs from host to host is an ellipsis there.
func TestTroubleshootingQuotesThePrograms(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	page := read("../../docs/troubleshooting.md")
	said := read("testdata/messages.txt") + read("../../packaging/teleport-update/deb/postinst")
	quoted := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(page, -1)
	for _, m := range quoted {
		for part := range strings.SplitSeq(m[1], "…") {
			if !strings.Contains(said, strings.TrimSuffix(part, ")")) {
				t.Errorf("docs/troubleshooting.md quotes %q; no program says %q", m[1], part)
			}
		}
	}
	if len(quoted) < 15 {
		t.Errorf("only %d sentences were found", len(quoted))
	}
}
