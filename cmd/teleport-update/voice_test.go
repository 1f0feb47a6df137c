package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// TestLogLinesHaveOneVoice: lower case, no full stop, and an error under the key
// "error", so that one search finds them all. It looks at every room of both
// programs.
func TestLogLinesHaveOneVoice(t *testing.T) {
	seen := map[string]int{}
	sources(t, func(room string, files *token.FileSet, file *ast.File) {
		lines, problems := voices(files, file)
		seen[room] += lines
		for _, problem := range problems {
			t.Error(problem)
		}
	})
	for _, room := range []string{"cmd", "find", "health", "installer", "versions"} {
		if seen[room] == 0 {
			t.Errorf("no log line of %s was found", room)
		}
	}
}

var unchanged = regexp.MustCompile(`nothing (was|is) (changed|done|stopped|written)`)

// unchangedParts say it of a part of the host in the middle of a transaction, or are no errors
// of a command, and why. Of the whole host the type of an error says it.
var unchangedParts = map[string]string{
	"nothing is done in it, for its file system may be mounted later": "the folder of the database, while the rest is undone",
	"nothing is changed in it: put the first folder back":             "the same",
	"nothing is done in it: put the first folder back, or wait":       "the same",
	"nothing was stopped: ":                              "the agent, while links and unit may go back",
	"that of the last report: nothing was changed":       "an answer on the wire, whose form is another",
	"too many hosts report at once: nothing was changed": "the same",
	"nothing was changed (a dry run)":                    "no error",
	"No server is asked and nothing is changed":          "the same",
	"come from a file, and nothing is written":           "the same",
}

// What state the host is in is said by the type of an error, which knows whether
// something was changed, and not written into its text.
func TestNoErrorSaysByItselfThatNothingWasChanged(t *testing.T) {
	said := 0
	excepted := map[string]bool{}
	sources(t, func(room string, files *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && len(logged(call)) > 0 {
				return false
			}
			text, ok := n.(*ast.BasicLit)
			if !ok || !unchanged.MatchString(text.Value) {
				return true
			}
			for part := range unchangedParts {
				if strings.Contains(text.Value, part) {
					excepted[part] = true
					return true
				}
			}
			// The find server's state is that of its store, and is said in one place.
			store := text.Value == `"nothing was written"`
			if said++; !store && (room != "internal" || file.Name.Name != "failure") {
				t.Errorf("%s: %s", files.Position(text.Pos()), text.Value)
			}
			return true
		})
	})
	if said == 0 || len(excepted) != len(unchangedParts) {
		t.Errorf("%d say it, and of the exceptions only %v", said, excepted)
	}
}

// sources parses the files of both programs.
func sources(t *testing.T, do func(room string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	everySource(t, func(room string, files *token.FileSet, file *ast.File) {
		test := strings.HasSuffix(files.Position(file.Pos()).Filename, "_test.go")
		if !test && room != "integration" && room != "tools" {
			do(room, files, file)
		}
	})
}

// everySource goes through the files of the module, those of tests and tools among them.
func everySource(t *testing.T, do func(room string, files *token.FileSet, file *ast.File)) {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		do(s.room, s.files, s.file)
	}
}

// source is a file of the module.
type source struct {
	room  string
	files *token.FileSet
	file  *ast.File
}

// parsed are the files of the module. Many tests go through them, and parsing takes the most of that.
var parsed = sync.OnceValues(func() (all []source, err error) {
	module := filepath.Join("..", "..")
	elsewhere := []string{"build", "docs"}
	err = filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		room, _, _ := strings.Cut(strings.TrimPrefix(path, module+string(filepath.Separator)), string(filepath.Separator))
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != module && (slices.Contains(elsewhere, room) || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{room, files, file})
		return nil
	})
	return all, err
})

func TestABrokenLogLineIsSeen(t *testing.T) {
	for _, tc := range []struct {
		line string
		says []string
	}{
		{`log.Info("the version is active", "version", v)`, nil},
		{`m.Log.Warn("URL is not reached", "error", err)`, nil},
		{`log.Info("The version is active")`, []string{"begins with a capital"}},
		{`m.Log.Warn("the version is active.")`, []string{"ends with a stop"}},
		{`s.log.Error("gone!", "err", err)`, []string{"ends with a stop", `the key "err"`}},
		{`log.Error("gone", "cause", closeErr)`, []string{`the key "cause"`}},
		{`log.Warn("it stays refused", "reason", refusal)`, []string{`the key "reason"`}},
		{`log.Warn("it stays refused", "why", t.cause)`, []string{`the key "why"`}},
		{`log.Info("The version "+"is active.")`, []string{"begins with a capital", "ends with a stop"}},
		{`log.Debug("gone", "Version", v)`, []string{`the key "Version"`}},
		{`log.Log(ctx, slog.LevelInfo, "Gone")`, []string{"begins with a capital"}},
		{`log.InfoContext(ctx, "Gone.", "why", err)`, []string{"begins with a capital", "ends with a stop", `the key "why"`}},
	} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "x.go", "package x\nfunc f() { "+tc.line+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		lines, problems := voices(files, file)
		if lines != 1 || len(problems) != len(tc.says) {
			t.Errorf("%s: %d lines, %q; want %q", tc.line, lines, problems, tc.says)
			continue
		}
		for n, says := range tc.says {
			if !strings.Contains(problems[n], says) {
				t.Errorf("%s: %q; want %q", tc.line, problems[n], says)
			}
		}
	}
}

// voices counts the log lines of a file, and says what is wrong with them.
func voices(files *token.FileSet, file *ast.File) (lines int, problems []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if args := logged(call); len(args) > 0 {
			lines++
			for _, problem := range voice(args) {
				problems = append(problems, files.Position(call.Pos()).String()+": "+problem)
			}
		}
		return true
	})
	return lines, problems
}

// logged is the message and the attributes of a call of a logger, which all are
// named log.
func logged(call *ast.CallExpr) []ast.Expr {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.EqualFold(lastName(method.X), "log") {
		return nil
	}
	before := 0
	switch method.Sel.Name {
	case "Debug", "Info", "Warn", "Error":
	case "DebugContext", "InfoContext", "WarnContext", "ErrorContext":
		before = 1
	case "Log":
		before = 2
	default:
		return nil
	}
	return call.Args[min(before, len(call.Args)):]
}

func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

func voice(args []ast.Expr) (problems []string) {
	if message, ok := joined(args[0]); ok && message != "" {
		first := strings.Fields(message + " ")[0]
		if unicode.IsUpper(rune(first[0])) && (len(first) == 1 || first != strings.ToUpper(first)) {
			problems = append(problems, strconv.Quote(message)+" begins with a capital")
		}
		if strings.HasSuffix(message, ".") || strings.HasSuffix(message, "!") {
			problems = append(problems, strconv.Quote(message)+" ends with a stop")
		}
	}
	for i := 1; i+1 < len(args); i += 2 {
		key, ok := joined(args[i])
		name := lastName(args[i+1])
		isError := strings.HasPrefix(name, "err") || strings.HasSuffix(name, "Err") || name == "refusal" || name == "cause"
		if ok && (key == "err" || isError && key != "error" || key != strings.ToLower(key)) {
			problems = append(problems, "an attribute has the key "+strconv.Quote(key))
		}
	}
	return problems
}
