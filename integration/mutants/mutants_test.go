package main

import (
	"go/parser"
	"go/token"
	"testing"
)

// A pair that is no longer found, or a mutant that is listed as equivalent and is
// none any more, shows here and not only when somebody next runs them all.
func TestEveryMutantIsFoundAndParses(t *testing.T) {
	mutants, err := Mutants("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(mutants) < 100 {
		t.Errorf("there are only %d mutants", len(mutants))
	}
	seen := map[string]bool{}
	for _, m := range mutants {
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, m.Text, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", m, err)
		}
		if seen[m.String()] {
			t.Errorf("%s is there twice", m)
		}
		seen[m.String()] = true
	}
}
