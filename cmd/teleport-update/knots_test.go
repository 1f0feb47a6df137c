package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A knot is a set of files of one package each of which uses a name of the others, directly or
// by way of them: who reads one has to read them all. A package of ten files or more has no knot
// of more than half of its files, and none has one of more than knotLimit.
const knotLimit = 12

// knots are the packages whose largest knot has another limit, in files: the size that it has.
// Who unties one makes the number smaller.
var knots = map[string]int{
	"installer":             0,
	"installer/transaction": 0,
	"find/rollout":          18, // the rules of one table
	"cmd/teleport-find":     4,
	"cmd/teleport-update":   7,
}

// methodLimit is how many methods a type reaches at most, those of embedded types among them.
// Who holds such a value can do all of that with it.
const methodLimit = 90

// listed is a package as `go list` tells of it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Path string }
}

func TestFilesDoNotNeedOneAnotherInKnots(t *testing.T) {
	if testing.Short() {
		t.Skip("the types of all packages take seconds to read")
	}
	packages, load := rooms(t)
	measured := 0
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		room := checkRoom(t, p, load)
		measured++
		knot := room.knot()
		limit, excepted := knots[name]
		if !excepted {
			if limit = knotLimit; len(p.GoFiles) >= 10 {
				limit = min(limit, len(p.GoFiles)/2)
			}
		}
		switch {
		case len(knot) > max(limit, 1):
			t.Errorf("%s: %d of its files need one another, and %d may: %s", name, len(knot), limit, strings.Join(knot, " "))
		case excepted && len(knot) < limit && len(knot) > 1:
			t.Errorf("%s: the largest knot has %d files; its limit of %d can be made smaller", name, len(knot), limit)
		}
		for typ, reach := range room.reaches() {
			if reach > methodLimit {
				t.Errorf("%s.%s reaches %d methods, and %d are the limit", name, typ, reach, methodLimit)
			}
		}
	}
	if measured < 30 {
		t.Errorf("only %d packages were measured", measured)
	}
}

// rooms are the packages of the programs, and a reader of what they import.
func rooms(t *testing.T) ([]listed, types.Importer) {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Module", module+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	exports := map[string]string{}
	var ours []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		name, inside := strings.CutPrefix(p.ImportPath, module)
		if inside && len(p.GoFiles) > 0 && !strings.HasPrefix(name, "integration") && !strings.HasPrefix(name, "tools/") {
			ours = append(ours, p)
		}
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	return ours, importer.ForCompiler(token.NewFileSet(), "gc", open)
}

// room is a package with its types.
type room struct {
	set   *token.FileSet
	files []*ast.File
	info  types.Info
	pkg   *types.Package
}

func checkRoom(t *testing.T, p listed, load types.Importer) room {
	t.Helper()
	r := room{set: token.NewFileSet(), info: types.Info{Uses: map[*ast.Ident]types.Object{}}}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(r.set, filepath.Join(p.Dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		r.files = append(r.files, file)
	}
	var err error
	if r.pkg, err = (&types.Config{Importer: load}).Check(p.ImportPath, r.set, r.files, &r.info); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r room) file(pos token.Pos) string { return filepath.Base(r.set.Position(pos).Filename) }

// uses says which files use names of which others.
func (r room) uses() map[string][]string {
	graph := map[string][]string{}
	for _, f := range r.files {
		from := r.file(f.Pos())
		graph[from] = nil
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			used := r.info.Uses[id]
			if used == nil || used.Pkg() != r.pkg {
				return true
			}
			v, isVar := used.(*types.Var)
			local := isVar && !v.IsField() && used.Parent() != r.pkg.Scope()
			if to := r.file(used.Pos()); !local && to != from {
				graph[from] = append(graph[from], to)
			}
			return true
		})
	}
	return graph
}

// knot is the largest set of files that need one another.
func (r room) knot() (largest []string) {
	graph := r.uses()
	reach := map[string]map[string]bool{}
	for from := range graph {
		seen := map[string]bool{}
		for todo := slices.Clone(graph[from]); len(todo) > 0; {
			to := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !seen[to] {
				seen[to] = true
				todo = append(todo, graph[to]...)
			}
		}
		reach[from] = seen
	}
	for one := range graph {
		knot := []string{one}
		for other := range graph {
			if other != one && reach[one][other] && reach[other][one] {
				knot = append(knot, other)
			}
		}
		if len(knot) > len(largest) {
			largest = knot
		}
	}
	slices.Sort(largest)
	return largest
}

// reaches says how many methods each struct has, with those of what it embeds.
func (r room) reaches() map[string]int {
	all := map[string]int{}
	for _, name := range r.pkg.Scope().Names() {
		named, ok := r.pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || named.IsAlias() {
			continue
		}
		if _, ok := named.Type().Underlying().(*types.Struct); ok {
			all[name] = types.NewMethodSet(types.NewPointer(named.Type())).Len()
		}
	}
	return all
}
