package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// A rung that is for no mutant would let the one that it was made for go on to the
// long ones, or go uncaught.
func TestEveryRungIsForSomeMutant(t *testing.T) {
	mutants, err := Mutants("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rungs {
		meant := regexp.MustCompile(r.only)
		if !slices.ContainsFunc(mutants, func(m Mutant) bool { return meant.MatchString(m.String()) }) {
			t.Errorf("%s: no mutant matches %s", r.name, r.only)
		}
	}
}

// Tests that are not where the ladder looks for them catch nothing, and say
// nothing.
func TestEveryRungHasItsTests(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, r := range rungs {
		if r.pkg == "" {
			continue
		}
		files, err := filepath.Glob(filepath.Join("..", "..", r.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		pattern, _, _ := strings.Cut(strings.TrimPrefix(r.args[0], "-test.run="), "/")
		wanted, found := regexp.MustCompile(pattern), 0
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				if wanted.Match(m[1]) {
					found++
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no test in %s matches %s", r.name, r.pkg, pattern)
		}
	}
}

// The mutant of a journal write names a type of another package, which its file need not import.
func TestMutantsOfJournalWritesHaveTheirImport(t *testing.T) {
	mutants, err := Mutants("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range mutants {
		if text := string(m.Text); strings.Contains(text, "*state.Journal)") {
			if found++; !strings.Contains(text, journalImport) {
				t.Errorf("%s does not compile", m)
			}
		}
	}
	if found == 0 {
		t.Error("there is none")
	}
}
