package metrics

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

func importsMetrics(t *testing.T, file string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range parsed.Imports {
		if strings.Contains(i.Path.Value, "find/server/metrics") {
			return true
		}
	}
	return false
}
