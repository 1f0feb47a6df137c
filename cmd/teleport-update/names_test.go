package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// gone are words that named things in the code and that nobody would search for. They name no
// function, type, field, constant or variable of a package any more. Comments, messages and
// names of tests are sentences, and may have them as English.
var gone = []string{"told", "untold", "foretold", "retold", "retell", "beside", "besides", "odd", "calm", "anew"}

// goneVerbs begin no function any more: a function logs, writes, reports, sets or adds.
var goneVerbs = []string{"tell", "tells", "telling", "note", "notes", "noted"}

// goneFile is the name of a file that has such a word.
var goneFile = regexp.MustCompile(`^(odd|beside|told|tell|noted|calm|anew)`)

// rolloutRooms are the parts in which "told" is the glossary's word: of a host, find said to it
// that it is to update, and the host has reported so.
var rolloutRooms = []string{"find", "cmd/teleport-find", "integration/rules", "integration/rollout", "integration/clusterfaults",
	"integration/findfaults", "tools/benchfind", "tools/benchfleet"}

// oneThing has the glossary's nouns that have named several things, and the folders whose type
// of that name is the thing that the glossary means.
var oneThing = map[string][]string{
	"report": nil, // what a host says of itself: Heartbeat in the code
	"record": nil, // what the version store says of a tree: files, and no type
	"state":  {"find/rollout", "installer/decision"},
	"host":   {"find/rollout", "find/server/adminapi", "find/simulate", "installer/host"},
	"answer": {"find", "find/rollout", "find/server/adminapi"},
}

func TestNamesHaveTheFieldsWords(t *testing.T) {
	seen := 0
	everySource(t, func(room string, files *token.FileSet, file *ast.File) {
		path := filepath.ToSlash(strings.TrimPrefix(files.Position(file.Pos()).Filename, filepath.Join("..", "..")+string(filepath.Separator)))
		if goneFile.MatchString(filepath.Base(path)) {
			t.Errorf("%s: the file's name has a word that names nothing any more", path)
		}
		product := room != "integration" && room != "tools" && !strings.HasSuffix(path, "_test.go")
		for _, d := range declared(file) {
			seen++
			problem := misnamed(path, d)
			if problem == "" && product {
				problem = twoThings(path, d)
			}
			if problem != "" {
				t.Errorf("%s: %s %s", files.Position(d.name.Pos()), d.name.Name, problem)
			}
		}
	})
	if seen < 10_000 {
		t.Errorf("%d names were read", seen)
	}
}

// declaration is a name of a package, of a method or of a field.
type declaration struct {
	name *ast.Ident
	kind string // "func", "type", "field" or "value"
}

func declared(file *ast.File) (all []declaration) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			all = append(all, declaration{n.Name, "func"})
			return false // what is local to a function names nothing outside of it
		case *ast.TypeSpec:
			all = append(all, declaration{n.Name, "type"})
		case *ast.ValueSpec:
			for _, name := range n.Names {
				all = append(all, declaration{name, "value"})
			}
		case *ast.StructType:
			for _, f := range n.Fields.List {
				for _, name := range f.Names {
					all = append(all, declaration{name, "field"})
				}
			}
		case *ast.InterfaceType:
			for _, f := range n.Methods.List {
				for _, name := range f.Names {
					all = append(all, declaration{name, "func"})
				}
			}
		}
		return true
	})
	return all
}

// misnamed says which gone word a name has; empty: none.
func misnamed(path string, d declaration) string {
	if d.kind == "func" && (strings.HasPrefix(d.name.Name, "Test") || strings.HasPrefix(d.name.Name, "Benchmark")) {
		return ""
	}
	words := wordsOf(d.name.Name)
	for _, w := range words {
		isGlossarys := w == "told" && slices.ContainsFunc(rolloutRooms, func(room string) bool { return strings.HasPrefix(path, room+"/") })
		if slices.Contains(gone, w) && !isGlossarys {
			return fmt.Sprintf("has the word %q, which names nothing any more", w)
		}
	}
	// Checks of the severity Note.
	areNotes := path == "installer/decision/notes.go" && d.name.Name == "notes"
	if d.kind == "func" && slices.Contains(goneVerbs, words[0]) && !areNotes {
		return fmt.Sprintf("begins with %q: say whether it logs, writes, reports, sets or adds", words[0])
	}
	return ""
}

// twoThings says that a type has a name that the glossary has given away; empty: it has not.
func twoThings(path string, d declaration) string {
	rooms, ours := oneThing[strings.ToLower(d.name.Name)]
	if d.kind != "type" || !ours || slices.Contains(rooms, filepath.ToSlash(filepath.Dir(path))) {
		return ""
	}
	return "is the glossary's word for another thing"
}

// wordsOf are the words of a name, in lower case.
func wordsOf(name string) (words []string) {
	begin := 0
	runes := []rune(name)
	for i := range runes {
		if i > begin && unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			words = append(words, strings.ToLower(string(runes[begin:i])))
			begin = i
		}
	}
	return append(words, strings.ToLower(string(runes[begin:])))
}

func TestAGoneWordInANameIsSeen(t *testing.T) {
	for _, tc := range []struct {
		path, kind, name string
		seen             bool
	}{
		{"installer/a.go", "func", "tellReason", true},
		{"installer/a.go", "func", "noteBoot", true},
		{"installer/a.go", "func", "tell", true},
		{"installer/a.go", "type", "OddError", true},
		{"installer/a.go", "field", "anew", true},
		{"installer/a.go", "value", "besideOthers", true},
		{"installer/a.go", "field", "Told", true},
		{"find/a.go", "field", "Told", false},
		{"installer/a.go", "func", "notify", false},
		{"installer/a.go", "field", "notes", false},
		{"installer/decision/notes.go", "func", "notes", false},
		{"installer/a.go", "func", "TestAPersonIsToldWhyOldVersionsStay", false},
		{"installer/a.go", "type", "record", true},
		{"installer/a.go", "type", "Report", true},
		{"find/rollout/a.go", "type", "State", false},
		{"installer/a.go", "type", "State", true},
		{"installer/a.go", "field", "State", false},
	} {
		d := declaration{ast.NewIdent(tc.name), tc.kind}
		if got := misnamed(tc.path, d) + twoThings(tc.path, d); (got != "") != tc.seen {
			t.Errorf("%s %s in %s: %q is seen; want something: %t", tc.kind, tc.name, tc.path, got, tc.seen)
		}
	}
}
