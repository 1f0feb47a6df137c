package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dialect are words that docs/glossary.md has another one for.
var dialect = []struct {
	stem    string // that the word has, to look for first
	word    *regexp.Regexp
	instead string
}{
	// The noun. A host may switch to a version.
	{"switch", regexp.MustCompile(`(\b(an?|the|this|each|every|last|next|open|another|no|such|first|older|failed|of|\d+)|%d) switch(es)?\b`), "transaction, or change of version"},
	// What a rollback does to a host, and nothing that a version does.
	{"held", regexp.MustCompile(`\b(agents?|transaction that|version that) ((has|have|had) )?held\b`), "healthy, or proven"},
	{"hold", regexp.MustCompile(`\bversion that holds\b|\bwatch(es|ed)? it hold\b|\b(version( that)?|if it|what) does not hold\b|\b(prove that|whether) it holds\b`), "healthy, or proven"},
	{"reassert", regexp.MustCompile(`\breassert`), "reconcile"},
	{"unmanaged", regexp.MustCompile(`\bunmanaged\b`), "pre-existing"},
	{"heed", regexp.MustCompile(`\bheed(s|ed|ing)?\b`), "follow, or respect"},
	{"remains", regexp.MustCompile(`\b(the|these|those|any|some|no|its|their|of|be|see) remains\b|\bremains (are|were|of)\b`), "leftovers"},
	// A place for a condition, and sentences that need a second reading.
	{" where ", regexp.MustCompile(`\b(empty|nil|zero|absent) where\b`), "if"},
	{"in the place of a", regexp.MustCompile(`\bst(ands|ood) in the place of\b`), "aside, or replaced"},
	{"none", regexp.MustCompile(`; nil is none\b`), "does nothing if it is nil"},
	{"unit of its own", regexp.MustCompile(`\bfailed, in a unit of its own\b`), "failed; see `journalctl -u UNIT`"},
}

// TestOneThingHasOneWord looks at the comments of both programs, their tests and their tools,
// at what the programs say to people, and at the pages.
func TestOneThingHasOneWord(t *testing.T) {
	read := map[string]int{} // words, by part
	look := func(part, where, text string) {
		text = onOneLine(text)
		read[part] += len(strings.Fields(text))
		for _, problem := range inDialect(text) {
			t.Errorf("%s: %s", where, problem)
		}
	}
	everySource(t, func(_ string, files *token.FileSet, file *ast.File) {
		for _, group := range file.Comments {
			look("comments", files.Position(group.Pos()).String(), group.Text())
		}
	})
	for _, part := range []struct {
		files, between string
		words          int // that there are at least: fewer, and something was not read
	}{
		{"testdata/messages.txt", "\n", 5000}, // each text of more than one word that is in the source
		{"testdata/help/*.txt", "\n\n", 500},
		{"../../README.md", "\n\n", 300},
		{"../../CONTRIBUTING.md", "\n\n", 300},
		{"../../docs/*.md", "\n\n", 5000},
		{"../../docs/development/*.md", "\n\n", 5000},
		{"../../SECURITY.md", "\n\n", 50},
	} {
		paths, err := filepath.Glob(part.files)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for n, paragraph := range strings.Split(string(data), part.between) {
				look(part.files, fmt.Sprintf("%s, part %d", path, n+1), paragraph)
			}
		}
		if read[part.files] < part.words {
			t.Errorf("%s: %d words were read; want %d at least", part.files, read[part.files], part.words)
		}
	}
	// What is released stays as it was said.
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	unreleased, _, found := strings.Cut(string(changes), "\n## 0.1.0 ")
	if !found {
		t.Error("CHANGELOG.md has no section of 0.1.0")
	}
	for paragraph := range strings.SplitSeq(unreleased, "\n- ") {
		look("changes", "CHANGELOG.md", paragraph)
	}
	if read["comments"] < 100_000 {
		t.Errorf("%d words of comments were read", read["comments"])
	}
}

// onOneLine joins the lines of a text: an article may be at the end of the one before its noun.
func onOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// inDialect names the words of a text that the glossary has others for.
func inDialect(text string) (problems []string) {
	text = strings.ToLower(text)
	for _, d := range dialect {
		if !strings.Contains(text, d.stem) {
			continue
		}
		for _, at := range d.word.FindAllStringIndex(text, -1) {
			problems = append(problems, fmt.Sprintf("%q in %q; the glossary's word is %s",
				text[at[0]:at[1]], text[max(0, at[0]-40):min(len(text), at[1]+40)], d.instead))
		}
	}
	return problems
}

func TestAWordOfDialectIsSeen(t *testing.T) {
	for text, words := range map[string]int{
		"the switch is undone":                                         1,
		"cut off in the middle of a\nswitch, by a boot":                1,
		"Each switch has a journal; the last 100 switches are kept":    2,
		"there were %d switches":                                       1,
		"the agent held for the health window":                         1,
		"A version that does not hold is rolled back":                  1,
		"if it does not hold, it is rolled back":                       1,
		"links are reasserted on an unmanaged host":                    2,
		"NO_COLOR is heeded":                                           1,
		"the remains of a crash":                                       1,
		"Found is empty where nothing was found":                       1,
		"a file stands in the place of a link":                         1,
		"warn logs an error; nil is none":                              1,
		"the folder is empty, where it should have files":              0,
		"a host switches to the version; it does not switch at once":   0,
		"`teleport-update switch` in teleport-update-switch-1.service": 0,
		"the host is held since a rollback by hand":                    0,
		"the caller must hold the lock; the archive holds a file":      0,
		"what remains is the backup, and the agent remains down":       0,
		"the transaction is undone, and the version was not healthy":   0,
	} {
		if got := inDialect(onOneLine(text)); len(got) != words {
			t.Errorf("%q: %d words of dialect are seen, %q; want %d", text, len(got), got, words)
		}
	}
}
