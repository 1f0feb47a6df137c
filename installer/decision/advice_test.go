package decision

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// starts are commands that start or restart something.
var starts = regexp.MustCompile("systemctl (start|restart|try-restart|reload-or-restart|enable --now)|update --restart")

// advising are the functions that try before they advise.
var advising = []string{"advise", "adviseRestart", "adviseAfter", "adviseRestartOf"}

// untriedStarts are functions that advise a start without a try, and why that can do no harm.
var untriedStarts = map[string]string{
	"timerOf": "the updater's timer: systemd has loaded it, or it is masked, and a start of it ends nothing that runs",
	"noRuns":  "the updater's timer, which is loaded and active",
}

// An advice is printed only if it helps: what is to be started is tried before. Each text of this package that names such a
// command is an argument of a function that tries.
func TestEveryAdviceToStartSomethingIsTried(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	tried, untried := map[string]int{}, map[string]int{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			in := "a variable"
			if function, ok := declaration.(*ast.FuncDecl); ok {
				in = function.Name.Name
			}
			var above []ast.Node
			ast.Inspect(declaration, func(n ast.Node) bool {
				if n == nil {
					above = above[:len(above)-1]
					return true
				}
				above = append(above, n)
				if text, ok := n.(*ast.BasicLit); !ok || text.Kind != token.STRING || !starts.MatchString(text.Value) {
					return true
				}
				switch by := callOf(above); {
				case by != "":
					tried[by]++
				case untriedStarts[in] != "":
					untried[in]++
				default:
					t.Errorf("%s: %s advises a start that nobody tried", files.Position(n.Pos()), in)
				}
				return true
			})
		}
	}
	for _, by := range advising {
		if tried[by] == 0 {
			t.Errorf("nothing is advised by %s any more", by)
		}
	}
	for in := range untriedStarts {
		if untried[in] == 0 {
			t.Errorf("%s advises no start any more: it needs no exception", in)
		}
	}
}

// callOf is the function that tries among the calls that a text is an argument of.
func callOf(above []ast.Node) string {
	for _, n := range above {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			continue
		}
		if function, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(advising, function.Sel.Name) {
			return function.Sel.Name
		}
	}
	return ""
}
