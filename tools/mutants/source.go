package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mutant is the updater's source with one change that takes away a part of what
// makes it survive.
type Mutant struct {
	File string // relative to the module
	Line int
	Func string
	What string // as in "sync removed: durable.SyncDir(dir)"
	Text []byte // of the whole file
}

// ID names a mutant however the lines move.
func (m Mutant) ID() string { return m.File + " " + m.Func + ": " + m.What }

func (m Mutant) String() string { return fmt.Sprintf("%s:%d %s: %s", m.File, m.Line, m.Func, m.What) }

// rooms are the packages in which something is made durable, and those that say whom root
// believes. What only the find server uses is another program's.
var rooms = []string{"internal/durable", "internal/trust", "versions", "backup", "systemd", "installer"}

var otherPrograms = map[string]bool{"versions/fetch/save.go": true}

// file is one parsed file of the updater.
type file struct {
	name string
	text []byte
	set  *token.FileSet
	ast  *ast.File
}

// parse reads the rooms' files.
func parse(module string) ([]file, error) {
	var files []file
	for _, room := range rooms {
		err := filepath.WalkDir(filepath.Join(module, room), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(module, path)
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || otherPrograms[name] {
				return err
			}
			f := file{name: name, set: token.NewFileSet()}
			if f.text, err = os.ReadFile(path); err != nil {
				return err
			}
			f.ast, err = parser.ParseFile(f.set, path, f.text, parser.SkipObjectResolution)
			files = append(files, f)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (f file) offset(p token.Pos) int { return f.set.Position(p).Offset }

// of is the source of a node.
func (f file) of(n ast.Node) string { return string(f.text[f.offset(n.Pos()):f.offset(n.End())]) }

// replace returns the file with another text in the place of a node.
func (f file) replace(from, to token.Pos, text string) []byte {
	return bytes.Join([][]byte{f.text[:f.offset(from)], f.text[f.offset(to):]}, []byte(text))
}

// journalImport is the package of the type that a journal write's mutant names.
const journalImport = `"teleport-update/installer/state"`

// importing adds that import in the line of the package, so that all lines stay where they are.
func (f file) importing(text []byte) []byte {
	if !bytes.Contains(text, []byte("*state.Journal)")) || bytes.Contains(f.text, []byte(journalImport)) {
		return text
	}
	at := f.offset(f.ast.Name.End())
	return slices.Concat(text[:at], []byte("; import "+journalImport), text[at:])
}

func (f file) mutant(n ast.Node, function, what string, text []byte) Mutant {
	return Mutant{File: f.name, Line: f.set.Position(n.Pos()).Line, Func: function, What: what, Text: text}
}

// functions calls do for each function with a body.
func (f file) functions(do func(*ast.FuncDecl)) {
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			do(fn)
		}
	}
}

// called is the name of what a call calls, without the package or the value it
// belongs to.
func called(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

// oneLine is a piece of source as it fits a list.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 90 {
		s = s[:87] + "..."
	}
	return s
}
