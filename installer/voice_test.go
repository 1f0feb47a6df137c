package installer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestTheVoiceOfLogs: a message is lower case, has no full stop, and the error that
// goes with it has the key "error".
func TestTheVoiceOfLogs(t *testing.T) {
	levels := map[string]bool{"Debug": true, "Info": true, "Warn": true, "Error": true}
	seen := 0
	for _, room := range []string{"backup", "cmd/teleport-update", "health", "installer", "internal", "ospackage", "systemd"} {
		err := filepath.WalkDir(filepath.Join("..", room), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !levels[method.Sel.Name] || !isLog(method.X) {
					return true
				}
				seen++
				at := set.Position(call.Pos())
				if message := literal(call.Args[0]); message != "" {
					if first := []rune(message)[0]; unicode.IsUpper(first) || strings.HasSuffix(message, ".") {
						t.Errorf("%s: %q", at, message)
					}
				}
				for n := 1; n+1 < len(call.Args); n += 2 {
					key := literal(call.Args[n])
					if key == "err" || key != strings.ToLower(key) {
						t.Errorf("%s: the key %q", at, key)
					}
					if id, ok := call.Args[n+1].(*ast.Ident); ok && id.Name == "err" && key != "error" && key != "reason" {
						t.Errorf("%s: an error has the key %q", at, key)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 50 {
		t.Errorf("there are only %d messages: this test shows nothing", seen)
	}
}

// isLog reports whether an expression is a logger, by its name.
func isLog(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "log")
	case *ast.SelectorExpr:
		return strings.EqualFold(e.Sel.Name, "log")
	}
	return false
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}
