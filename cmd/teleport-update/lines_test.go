package main

import (
	"go/ast"
	"go/token"
	"os"
	"strings"
	"testing"
)

// Limits of a line: its columns, its boolean operators, and how many lines of a thousand may have four of
// them.
const (
	lineLimit     = 140
	operatorLimit = 4
	denseLimit    = 0.3
)

func TestLinesAreShortAndNotDense(t *testing.T) {
	lines, dense := 0, 0
	sources(t, func(_ string, files *token.FileSet, file *ast.File) {
		path := files.Position(file.Pos()).Filename
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			if len(line) > lineLimit {
				t.Errorf("%s:%d has %d columns", path, n+1, len(line))
			}
			if code := strings.TrimSpace(line); code != "" && !strings.HasPrefix(code, "//") {
				lines++
				operators := strings.Count(code, "&&") + strings.Count(code, "||")
				if operators > operatorLimit {
					t.Errorf("%s:%d has %d boolean operators: name parts of the condition", path, n+1, operators)
				}
				if operators >= 4 {
					dense++
				}
			}
		}
	})
	if got := 1000 * float64(dense) / float64(max(lines, 1)); got > denseLimit || lines < 10000 {
		t.Errorf("%d of %d lines have four boolean operators or more, %.2f of a thousand", dense, lines, got)
	}
}
