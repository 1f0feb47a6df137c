package transaction

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/state"
)

// function is what one function of this package does with the record of a transaction,
// and which others it calls. Names are those of functions and methods: type.method.
type function struct {
	calls []string
	notes []string // records that it sets, by the names of their constants
	reads []string // parts of the journal, by their names there
}

// functions are those of this package, by name. Only its own types are known here: no import
// is read, for a record and its owner are types of this package.
func functions(t *testing.T) map[string]function {
	t.Helper()
	parts := map[string]string{}
	for field := range reflect.TypeFor[state.Journal]().Fields() {
		parts[field.Name], _, _ = strings.Cut(field.Tag.Get("json"), ",")
	}
	var files []*ast.File
	set := token.NewFileSet()
	sources(t, ".", func(path string, _ *token.FileSet, _ *ast.File) {
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		must(t, err)
		files = append(files, f)
	})
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	_, _ = conf.Check("transaction", set, files, info)
	all := map[string]function{}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			var does function
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if called, ok := info.Uses[n].(*types.Func); ok {
						does.calls = append(does.calls, nameOf(called))
					} else if door, ok := info.Uses[n].(*types.Var); ok && door.IsField() {
						does.calls = append(does.calls, "door."+door.Name())
					} else if strings.HasPrefix(n.Name, "about") {
						does.notes = append(does.notes, n.Name)
					}
				case *ast.SelectorExpr:
					if part := parts[n.Sel.Name]; part != "" && typeName(info.TypeOf(n.X)) == "openJournal" {
						does.reads = append(does.reads, part)
					}
				}
				return true
			})
			all[nameOf(info.Defs[fn.Name].(*types.Func))] = does
		}
	}
	return all
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not read") }

func nameOf(f *types.Func) string {
	if r := f.Signature().Recv(); r != nil {
		return typeName(r.Type()) + "." + f.Name()
	}
	return f.Name()
}

func typeName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// nameOfValue is the name of a method that a table has.
func nameOfValue(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	name = name[strings.LastIndex(name, "/")+1:]
	return strings.NewReplacer("transaction.", "", "(*", "", ")", "").Replace(name)
}

// reach is what functions and all that they call do, but for those at which another walk
// begins.
func reach(t *testing.T, all map[string]function, from []string, but ...string) (notes, reads map[string]bool) {
	t.Helper()
	but = append(but, "steps", "phases", "stepsForward", "stepsBack", "recoveries") // the tables name everything
	notes, reads = map[string]bool{}, map[string]bool{}
	seen := map[string]bool{}
	for len(from) > 0 {
		name := from[0]
		from = from[1:]
		if seen[name] || slices.Contains(but, name) {
			continue
		}
		seen[name] = true
		does, known := all[name]
		if typ, method, is := strings.Cut(name, "."); is && !known && typ != "" {
			from = append(from, behind(all, method)...)
		}
		for _, what := range does.notes {
			notes[what] = true
		}
		for _, part := range does.reads {
			reads[part] = true
		}
		from = append(from, does.calls...)
	}
	return notes, reads
}

// behind are the functions that may stand behind a method of an interface, or a field that is a function:
// all methods of that name.
func behind(all map[string]function, method string) (names []string) {
	for name := range all {
		if strings.HasSuffix(name, "."+method) {
			names = append(names, name)
		}
	}
	return names
}

// A record that a phase does not list is refused, in the middle of what needs it. So each row
// lists what is noted by all that may be called in its phase, and nothing else.
func TestARowListsWhatIsNotedInItsPhase(t *testing.T) {
	// What a walk by calls alone cannot see.
	never := map[state.Phase]map[string]string{
		begun:       {"aboutAside": "keepPair does nothing before the step reload is done, with which the phase is left"},
		restored:    {"aboutDatabase": "journalRemovedData is handed to the steps that put the database back, which are done then"},
		rollingBack: {"aboutVerdict": "undoAtBoot gives a verdict in the phases before, and seeItBack once all is restored"},
	}
	forward := func(done bool) (all []string) {
		before := true
		for _, s := range steps() {
			if before != done {
				all = append(all, nameOfValue(stepsForward()[s.name]))
			}
			before = before && s.enters == ""
		}
		return append(all, "advancing.abandon", "transaction.advance")
	}
	var back []string
	for _, s := range steps() {
		if s.back != "" {
			back = append(back, nameOfValue(stepsBack()[s.name]))
		}
	}
	also := map[state.Phase][]string{
		"":          {"transaction.enterProven"},
		begun:       forward(false),
		switched:    forward(true),
		rollingBack: back,
		restored:    {nameOfValue(stepsBack()[steps()[0].name]), "transaction.closeUndone"},
		proven:      {"transaction.finish"},
		replacing:   {"transaction.finish"},
	}
	program := functions(t)
	for _, p := range phases() {
		from := also[p.name]
		for _, r := range []recovery{p.boot, p.live} {
			if r != "" {
				from = append(from, nameOfValue(recoveries()[r]))
			}
		}
		for _, name := range from {
			if _, ok := program[name]; !ok {
				t.Fatalf("there is no function %s", name)
			}
		}
		// These are called once another phase is entered.
		var other []string
		for _, name := range []string{"undoing.undoSteps", "transaction.closeUndone", "transaction.finish"} {
			if !slices.Contains(from, name) {
				other = append(other, name)
			}
		}
		noted, _ := reach(t, program, from, other...)
		for what, why := range never[p.name] {
			if !noted[what] {
				t.Errorf("%q: %s is not reached any more: %s", p.name, what, why)
			}
			delete(noted, what)
		}
		listed := map[string]bool{}
		for name, what := range abouts {
			if slices.Contains(p.notes, what) {
				listed[name] = true
			}
		}
		if !maps.Equal(noted, listed) {
			t.Errorf("in the phase %q the records %v are set, and its row lists %v", p.name, slices.Sorted(maps.Keys(noted)), slices.Sorted(maps.Keys(listed)))
		}
	}
}

// What a step needs of the journal to be undone is what its row says. What every undoing
// has is in no row.
func TestAStepIsUndoneFromWhatItsRowNames(t *testing.T) {
	always := []string{"id", "started", "boot_id", "phase", "from", "to", "verdict", "aside"}
	program := functions(t)
	for _, s := range steps() {
		if s.back == "" {
			if len(s.needs) > 0 {
				t.Errorf("%s has no undo, and needs %v", s.name, s.needs)
			}
			continue
		}
		_, reads := reach(t, program, []string{nameOfValue(stepsBack()[s.name])})
		maps.DeleteFunc(reads, func(part string, _ bool) bool { return slices.Contains(always, part) })
		if got, want := slices.Sorted(maps.Keys(reads)), slices.Sorted(slices.Values(s.needs)); !slices.Equal(got, want) {
			t.Errorf("%s is undone from %q, and its row names %q", s.name, got, want)
		}
	}
}
