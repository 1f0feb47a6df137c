package decision

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/internal/golden"
)

// TestArchitectureNamesTheFileOfEachCondition compares the list in docs/development/architecture.md
// with the files that have the rows of the checks.
func TestArchitectureNamesTheFileOfEachCondition(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{} // of the constants
	rows := map[string][]string{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if len(n.Values) == 1 {
					if value, ok := n.Values[0].(*ast.BasicLit); ok {
						words[n.Names[0].Name] = strings.Trim(value.Value, `"`)
					}
				}
			case *ast.CompositeLit:
				if list, ok := n.Type.(*ast.ArrayType); ok && fmt.Sprint(list.Elt) == "Check" {
					for _, row := range n.Elts {
						rows[path] = append(rows[path], fmt.Sprint(row.(*ast.CompositeLit).Elts[0]))
					}
				}
			}
			return true
		})
	}
	text, found := "\n", 0
	for _, path := range slices.Sorted(maps.Keys(rows)) {
		var names []string
		for _, name := range rows[path] {
			names = append(names, "`"+words[name]+"`")
		}
		found += len(names)
		text += fmt.Sprintf("- `installer/decision/%s`: %s\n", path, strings.Join(names, ", "))
	}
	if found != len(Checks) {
		t.Errorf("%d rows were found; want %d", found, len(Checks))
	}
	golden.Part(t, filepath.Join("..", "..", "docs", "development", "architecture.md"), "the files of installer/decision", text+"\n")
}
