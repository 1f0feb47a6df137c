package main

import (
	"encoding/xml"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The recording in the README is of the demo as it is: the same words and the same
// commands, in the same order. What the commands print is from when it was made.
func TestTheRecordingTellsTheStoryOfTheDemo(t *testing.T) {
	shown := strings.Join(textOf(t, "../../docs/demo.svg"), "")
	story := storyOf(t, "../demo/main.go")
	if len(story) < 10 {
		t.Fatalf("the story is only %q", story)
	}
	rest := bare(shown)
	for _, part := range story {
		_, after, found := strings.Cut(rest, bare(part))
		if !found {
			t.Fatalf("docs/demo.svg does not show %q, or not in its place: `make recording` makes another", part)
		}
		rest = after
	}
}

func TestWhatIsRecordedIsAPicture(t *testing.T) {
	var r recording
	r.add(time.Second, "== <begin> & go")
	r.add(time.Minute, strings.Repeat("ä", columns)+"the rest")
	if len(r.lines) != 3 || r.lines[1].at != says.wait || r.lines[2].at != says.wait || r.lines[2].text != "the rest" {
		t.Errorf("%+v", r.lines)
	}
	path := t.TempDir() + "/r.svg"
	if err := os.WriteFile(path, []byte(r.svg()), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, path); len(got) != 3 || got[0] != "== <begin> & go" {
		t.Errorf("%q", got)
	}
}

// bare is a text without blanks: lines are broken anywhere.
func bare(text string) string { return strings.Join(strings.Fields(text), "") }

// textOf reads the lines of a recording.
func textOf(t *testing.T, path string) (lines []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := xml.NewDecoder(f)
	for inText := false; ; {
		switch token, err := in.Token(); v := token.(type) {
		case xml.StartElement:
			inText = v.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				lines = append(lines, string(v))
			}
		case nil:
			if err != io.EOF {
				t.Fatal(err)
			}
			return lines
		}
	}
}

// storyOf is what the first act says and runs, in its order: the literal words of
// its calls of say and show.
func storyOf(t *testing.T, path string) (parts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name != "story" {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if name != "say" && name != "show" {
			return true
		}
		var words []string
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				word, _ := strconv.Unquote(lit.Value)
				words = append(words, word)
			}
		}
		parts = append(parts, strings.Join(words, " "))
		return true
	})
	return parts
}
