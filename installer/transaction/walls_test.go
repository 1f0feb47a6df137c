package transaction

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// doorLimit is how many methods an interface of this package has at most. Agent is the connection to
// an agent: the sum of such interfaces.
const doorLimit = 4

// declared are the types of this package, by name, and its files, with the types whose methods they have.
func declared(t *testing.T) (all map[string]*ast.TypeSpec, methods map[string][]string, files map[string]*ast.File) {
	t.Helper()
	all, methods, files = map[string]*ast.TypeSpec{}, map[string][]string{}, map[string]*ast.File{}
	sources(t, ".", func(path string, _ *token.FileSet, f *ast.File) {
		name := filepath.Base(path)
		files[name] = f
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					of := d.Recv.List[0].Type
					if p, ok := of.(*ast.StarExpr); ok {
						of = p.X
					}
					methods[name] = append(methods[name], of.(*ast.Ident).Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if spec, ok := s.(*ast.TypeSpec); ok {
						all[spec.Name.Name] = spec
					}
				}
			}
		}
	})
	return all, methods, files
}

// methodsOf counts the methods of an interface, those of the ones that it embeds among them.
func methodsOf(t *testing.T, all map[string]*ast.TypeSpec, of *ast.InterfaceType) (count int) {
	t.Helper()
	for _, m := range of.Methods.List {
		if _, is := m.Type.(*ast.FuncType); is {
			count += len(m.Names)
			continue
		}
		name, ok := m.Type.(*ast.Ident)
		if !ok {
			t.Fatalf("an interface embeds one of another package")
		}
		count += methodsOf(t, all, all[name.Name].Type.(*ast.InterfaceType))
	}
	return count
}

func TestDoorsAreNarrow(t *testing.T) {
	all, _, _ := declared(t)
	counted := 0
	for name, spec := range all {
		door, ok := spec.Type.(*ast.InterfaceType)
		if !ok || name == "Agent" {
			continue
		}
		counted++
		if n := methodsOf(t, all, door); n < 1 || n > doorLimit {
			t.Errorf("%s has %d methods, and %d are the limit: who uses it needs less, or is two", name, n, doorLimit)
		}
	}
	if counted < 10 {
		t.Errorf("only %d interfaces were looked at", counted)
	}
}

// Neither the steps nor the undoing have the transaction, each other, or all of a lower room: not in
// their files, and not by any field, however far.
func TestStepsReachNoMoreThanTheirDoors(t *testing.T) {
	behind := []string{"transaction", "advancing", "Machine", "Agent", "realAgent", "takingOver", "Preflight",
		"host.Host", "host.Units", "backup.Database", "versions.Store", "systemd.Conn", "state.Paths"}
	all, methods, files := declared(t)
	for side, other := range map[string]string{"undoing": "doing", "doing": "undoing"} {
		seen := map[string]bool{}
		var look func(from string)
		look = func(from string) {
			spec := all[from]
			if spec == nil || seen[from] {
				return
			}
			seen[from] = true
			for _, used := range typesIn(spec.Type) {
				if slices.Contains(append(behind, other), used) {
					t.Errorf("%s reaches %s by %s", side, used, from)
				}
				look(used)
			}
		}
		look(side)
		if len(seen) < 8 {
			t.Errorf("of what %s reaches only %d types were looked at", side, len(seen))
		}
		// Its files are its own.
		own := 0
		for name, of := range methods {
			if !slices.Contains(of, side) {
				continue
			}
			own++
			for _, typ := range of {
				if typ != side {
					t.Errorf("%s has methods of %s, and of %s", name, side, typ)
				}
			}
			for _, d := range files[name].Decls {
				for _, used := range typesIn(d) {
					if slices.Contains(append(behind, other), used) {
						t.Errorf("%s, a file of %s, uses %s", name, side, used)
					}
				}
			}
		}
		if own == 0 {
			t.Errorf("%s has no file", side)
		}
	}
}

// typesIn are the types that some source may name: its words, and those of other packages with theirs.
// What is selected of a value is none.
func typesIn(n ast.Node) (all []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok {
				all = append(all, of.Name+"."+n.Sel.Name)
			}
			all = append(all, typesIn(n.X)...)
			return false
		case *ast.Ident:
			all = append(all, n.Name)
		}
		return true
	})
	return all
}
