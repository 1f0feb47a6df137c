package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// logging are the rooms whose log lines are looked at.
var logging = []string{"backup", "cmd", "find", "internal", "ospackage", "versions"}

// TestLogLinesHaveOneVoice: lower case, no full stop, and an error under the key
// "error", so that one search finds them all.
func TestLogLinesHaveOneVoice(t *testing.T) {
	module, seen := filepath.Join("..", ".."), 0
	for _, room := range logging {
		err := filepath.WalkDir(filepath.Join(module, room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !isLogging(call) {
					return true
				}
				seen++
				for _, problem := range voice(call) {
					t.Errorf("%s: %s", files.Position(call.Pos()), problem)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 30 {
		t.Errorf("only %d log lines were found", seen)
	}
}

// isLogging reports whether a call is one of the methods of a logger, which all are
// named log.
func isLogging(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	switch method.Sel.Name {
	case "Debug", "Info", "Warn", "Error":
		return strings.EqualFold(lastName(method.X), "log")
	}
	return false
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

func voice(call *ast.CallExpr) (problems []string) {
	if message, ok := literal(call.Args[0]); ok {
		first := strings.Fields(message + " ")[0]
		if unicode.IsUpper(rune(first[0])) && (len(first) == 1 || first != strings.ToUpper(first)) {
			problems = append(problems, strconv.Quote(message)+" begins with a capital")
		}
		if strings.HasSuffix(message, ".") || strings.HasSuffix(message, "!") {
			problems = append(problems, strconv.Quote(message)+" ends with a stop")
		}
	}
	for i := 1; i+1 < len(call.Args); i += 2 {
		key, ok := literal(call.Args[i])
		isError := strings.HasPrefix(strings.ToLower(lastName(call.Args[i+1])), "err")
		if ok && (key == "err" || isError && key != "error") {
			problems = append(problems, "an error has the key "+strconv.Quote(key))
		}
	}
	return problems
}

func literal(x ast.Expr) (string, bool) {
	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil && text != ""
}
