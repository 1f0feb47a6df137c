package main

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// noSentences are texts that begin with a capital and are none: names of units and of
// files' fields, labels of tables, headings and buttons of the page.
var noSentences = []string{
	`Audit list`,
	`Join token`,
	`Mark done`,
	`Not counted`,
	`Roll back`,
	`Sign in`,
	`Suspend updates`,
	`All groups are done; `,
	`No more of its hosts are`,
	`None of its hosts is`,
	`Windows are over; `,
	`Close the open transaction of the Teleport agent`,
	`Last update`,
	`Package left`,
	`Switch the Teleport agent to `,
}

// endsOfSentences are texts that begin in lower case, since something comes before
// them.
var endsOfSentences = []string{
	`no host reports, and the server cannot tell whether any is on %s.`,
	" is installed.",
}

// Sentences for people begin with a capital and end with a stop; errors, log lines and
// what a flag is for do neither.
func TestMessagesHaveOneStyleOfCapitals(t *testing.T) {
	reviewed, err := os.ReadFile(filepath.Join("testdata", "messages.txt"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, text := range append(noSentences, endsOfSentences...) {
		known[text] = false
	}
	sentences := 0
	for line := range strings.Lines(string(reviewed)) {
		text := strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(text, "#") {
			continue
		}
		if _, ok := known[text]; ok {
			known[text] = true
			continue
		}
		if problem := capitals(text); problem != "" {
			t.Errorf("%q %s", text, problem)
		}
		if isSentence(text) {
			sentences++
		}
	}
	for text, found := range known {
		if !found {
			t.Errorf("%q is an exception, and nobody says it", text)
		}
	}
	if sentences < 50 {
		t.Errorf("only %d sentences were found: this shows little", sentences)
	}
}

func TestErrorsAreNoSentences(t *testing.T) {
	seen := 0
	sources(t, func(_ string, files *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || lastName(call.Fun) != "Errorf" && !isErrorsNew(call.Fun) {
				return true
			}
			text, ok := joined(call.Args[0])
			if !ok {
				return true
			}
			seen++
			if isSentence(text) || strings.HasSuffix(text, ".") {
				t.Errorf("%s: the error %q is written as a sentence", files.Position(call.Pos()), text)
			}
			return true
		})
	})
	if seen < 300 {
		t.Errorf("only %d errors were seen: this shows little", seen)
	}
}

func isErrorsNew(x ast.Expr) bool {
	f, ok := x.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "New" && lastName(f.X) == "errors"
}

// The help of both programs: what a command and a flag are for.
func TestUsageHasOneStyleOfCapitals(t *testing.T) {
	seen := 0
	for _, program := range []string{"teleport-update", "teleport-find"} {
		files, err := filepath.Glob(filepath.Join("..", program, "testdata", "help", "*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			help, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range usage.FindAllStringSubmatch(string(help), -1) {
				text, _, _ := strings.Cut(m[1], " (default: ")
				text, _, _ = strings.Cut(text, " [$")
				seen++
				if isSentence(text) || strings.HasSuffix(text, ".") {
					t.Errorf("%s: %q is written as a sentence", name, text)
				}
			}
		}
	}
	if seen < 200 {
		t.Errorf("only %d usages were seen: this shows little", seen)
	}
}

var (
	usage    = regexp.MustCompile(`(?m)^   (?:teleport-[a-z]+ [a-z-]+ - |--?\S.*?  +|[a-z-]+  +)(\S.*)$`)
	sentence = regexp.MustCompile(`^\s*[A-Z](?:[a-z]| [a-z])`)
	stop     = regexp.MustCompile(`[^.][.!]$`)
)

func isSentence(text string) bool { return sentence.MatchString(text) }

// capitals says what is wrong with the style of a text, as messages.txt has it.
func capitals(text string) string {
	text = strings.TrimRight(strings.ReplaceAll(text, `\n`, " "), " ")
	switch ends := strings.HasSuffix(text, ":") || strings.HasSuffix(text, "?") || strings.HasSuffix(text, "'file:///DIR/"); {
	case isSentence(text) && !ends && !stop.MatchString(text):
		return "begins as a sentence, and does not end with a stop"
	case !isSentence(text) && lower.MatchString(text) && stop.MatchString(text):
		return "begins in lower case, and ends with a stop"
	}
	return ""
}

var lower = regexp.MustCompile(`^\s*[a-z]`)

func TestABrokenCapitalIsSeen(t *testing.T) {
	for text, want := range map[string]bool{
		"The agent runs it.":                 true,
		"the agent runs it":                  true,
		"TLS handshake timeout":              true,
		"SQLite left %s behind":              true,
		`Updates are %s.\n`:                  true,
		"The agent runs it":                  false,
		"the agent runs it.":                 false,
		"A version is not healthy":           false,
		`the agent is gone!\n`:               false,
		"a dry run says what would be done…": true,
	} {
		if got := capitals(text) == ""; got != want {
			t.Errorf("%q: %v; want %v", text, got, want)
		}
	}
	m := usage.FindAllStringSubmatch("   teleport-find get - print it\n   --flag V  what it is\n   get   Print it.\n", -1)
	if len(m) != 3 || m[0][1] != "print it" || m[1][1] != "what it is" || m[2][1] != "Print it." {
		t.Errorf("%q", m)
	}
}
