package transaction

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teleport-update/installer/state"
	"teleport-update/internal/golden"
)

func TestAPhaseIsEnteredOnlyFromWhereTheTableSays(t *testing.T) {
	m := testMachine(t)
	for _, from := range phases() {
		for _, to := range names() {
			tr := m.open(t, begun, nil)
			tr.j.Phase = from.name
			must(t, tr.j.save(&tr.j.Journal))
			before, err := os.ReadFile(m.Host.Paths.Journal())
			must(t, err)
			err = tr.j.enter(to)
			after, readErr := os.ReadFile(m.Host.Paths.Journal())
			must(t, readErr)
			if allowed := slices.Contains(from.next, to); allowed != (err == nil) || allowed != (tr.j.Phase == to && strings.Contains(string(after), `"phase": "`+string(to)+`"`)) && from.name != to {
				t.Errorf("from %q to %q: %v, then %q; allowed: %v", from.name, to, err, tr.j.Phase, allowed)
			} else if !allowed && !bytes.Equal(before, after) {
				t.Errorf("from %q to %q: refused, and written", from.name, to)
			}
		}
	}
}

// abouts are all records that a row may list, by the names of their constants.
var abouts = map[string]about{
	"aboutVerdict": aboutVerdict, "aboutAgent": aboutAgent, "aboutWatch": aboutWatch, "aboutDatabase": aboutDatabase,
	"aboutPackages": aboutPackages, "aboutAside": aboutAside, "aboutReplaced": aboutReplaced,
}

func TestNothingIsNotedThatTheTableDoesNotList(t *testing.T) {
	m := testMachine(t)
	for _, row := range phases() {
		for _, what := range abouts {
			tr := m.open(t, begun, nil)
			tr.j.Phase = row.name
			changed := false
			err := tr.j.journal(what, func(*state.Journal) { changed = true })
			if allowed := slices.Contains(row.notes, what); allowed != changed || allowed != (err == nil) {
				t.Errorf("the %s in the phase %q: changed %v, %v; allowed: %v", what, row.name, changed, err, allowed)
			}
		}
	}
}

func TestAPhaseThatCannotBeWrittenIsNotEntered(t *testing.T) {
	tr := testMachine(t).open(t, begun, func(j *state.Journal) { j.Reached = "unit" })
	full := fmt.Errorf("no room")
	tr.j.save = func(*state.Journal) error { return full }
	s := steps()[slices.IndexFunc(steps(), func(s step) bool { return s.enters == switched })]
	if err := tr.j.advance(s); err == nil || tr.j.Phase != begun || tr.j.reached("reload") {
		t.Errorf("%v: the phase is %q, reached is %q", err, tr.j.Phase, tr.j.Reached)
	}
}

func TestEveryPhaseHasARowThatIsWhole(t *testing.T) {
	known := names()
	for _, p := range phases() {
		if p.guarantee == "" {
			t.Errorf("%q guarantees nothing", p.name)
		}
		if p.name != "" && (recoveries()[p.boot] == nil || recoveries()[p.live] == nil || p.working == nil || p.cutOff == nil) {
			t.Errorf("the row of %q is not whole", p.name)
		}
		for _, next := range p.next {
			if !slices.Contains(known, next) {
				t.Errorf("%q is followed by %q, which is no phase", p.name, next)
			}
		}
	}
}

func TestEveryStepIsDoneAndUndone(t *testing.T) {
	forward, back := stepsForward(), stepsBack()
	for _, s := range steps() {
		if forward[s.name] == nil || (back[s.name] != nil) != (s.back != "") {
			t.Errorf("%s is done: %v; undone: %v; its row says %q", s.name, forward[s.name] != nil, back[s.name] != nil, s.back)
		}
		delete(forward, s.name)
		delete(back, s.name)
	}
	if len(forward)+len(back) > 0 {
		t.Errorf("%d are done and %d undone that are no steps", len(forward), len(back))
	}
}

// names lists the phases that are written down, in the order of the table.
func names() []state.Phase {
	var all []state.Phase
	for _, p := range phases() {
		if p.name != "" {
			all = append(all, p.name)
		}
	}
	return all
}

// sources parses the program's files below a folder.
func sources(t *testing.T, root string, do func(path string, set *token.FileSet, f *ast.File)) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err == nil {
			do(path, set, f)
		}
		return err
	}))
}

func text(set *token.FileSet, n ast.Node) string {
	var b bytes.Buffer
	_ = printer.Fprint(&b, set, n)
	return b.String()
}

// Whatever hangs from the phase is in the table. What is compared with one phase
// elsewhere is listed here, and why.
func TestNothingButTheTableDecidesOnPhases(t *testing.T) {
	allowed := map[string]string{
		"advance":          "how the agent is enabled is written down with the version that is proven",
		"forward":          "the same",
		"undoSteps":        "an undoing that has put all back goes on with the agent",
		"due":              "the same",
		"enterRollingBack": "what is on a disk that is full still says begun, which means the same",
		"journalBoot":      "a version that was not proven is not tried again after a boot",
		"undoAtBoot":       "an undoing that was begun knows why",
	}
	used := map[string]bool{}
	phase := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && slices.Contains([]string{"begun", "switched", "rollingBack", "restored", "proven", "replacing"}, id.Name)
	}
	sources(t, "..", func(path string, set *token.FileSet, f *ast.File) {
		if filepath.Base(path) == "phases.go" {
			return
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CaseClause:
					if slices.ContainsFunc(n.List, phase) {
						t.Errorf("%s %s: a transaction over phases", path, fn.Name.Name)
					}
				case *ast.BinaryExpr:
					if phase(n.X) || phase(n.Y) {
						used[fn.Name.Name] = true
						if allowed[fn.Name.Name] == "" {
							t.Errorf("%s %s: %s", path, fn.Name.Name, text(set, n))
						}
					}
				}
				return true
			})
		}
	})
	for name := range allowed {
		if !used[name] {
			t.Errorf("%s compares no phase any more", name)
		}
	}
}

// Only openjournal.go writes in the journal of an open transaction.
func TestOnlyTheRecordIsWrittenInByItself(t *testing.T) {
	sources(t, "..", func(path string, set *token.FileSet, f *ast.File) {
		if filepath.Base(path) == "journal.go" {
			return
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv != nil && text(set, fn.Recv.List[0].Type) == "*openJournal" {
				t.Errorf("%s: %s is not beside the other methods of the record", path, fn.Name.Name)
			}
		}
		for _, d := range f.Decls {
			records := recordsOf(set, d)
			ast.Inspect(d, func(n ast.Node) bool {
				var written []ast.Expr
				switch n := n.(type) {
				case *ast.AssignStmt:
					written = n.Lhs
				case *ast.IncDecStmt:
					written = []ast.Expr{n.X}
				case *ast.CallExpr:
					if strings.HasSuffix(text(set, n.Fun), ".j.save") {
						t.Errorf("%s: %s", path, text(set, n))
					}
				}
				for _, left := range written {
					name, _, field := strings.Cut(text(set, left), ".")
					if strings.Contains(text(set, left), ".j.") || field && records[name] {
						t.Errorf("%s: %s", path, text(set, n))
					}
				}
				return true
			})
		}
	})
}

// recordsOf are the variables of a function that are records: its parameters and results, and what
// it has of those that make one.
func recordsOf(set *token.FileSet, d ast.Decl) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				found[name.Name] = found[name.Name] || text(set, n.Type) == "*openJournal"
			}
		case *ast.AssignStmt:
			call, ok := n.Rhs[0].(*ast.CallExpr)
			if !ok {
				break
			}
			of := text(set, call.Fun)
			of = of[strings.LastIndex(of, ".")+1:]
			if name, ok := n.Lhs[0].(*ast.Ident); ok && slices.Contains([]string{"newOpenJournal", "load", "loadOrSetAside", "rebuiltJournal"}, of) {
				found[name.Name] = true
			}
		}
		return true
	})
	return found
}

// There is one door back: an undoing begins in one place.
func TestThereIsOneDoorBack(t *testing.T) {
	var places []string
	sources(t, ".", func(path string, set *token.FileSet, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.CompositeLit); ok && lit.Type != nil && text(set, lit.Type) == "undoing" {
				places = append(places, set.Position(lit.Pos()).String())
			}
			return true
		})
	})
	if len(places) != 1 {
		t.Errorf("an undoing begins in %q; want one place", places)
	}
}

// TestArchitectureShowsTheTable compares docs/development/architecture.md with the phases and the
// steps, and the picture in docs/how-it-works.md with the phases.
func TestArchitectureShowsTheTable(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	golden.Part(t, filepath.Join(docs, "development", "architecture.md"), "installer/transaction/phases.go and steps.go", "\n"+tables())
	golden.Part(t, filepath.Join(docs, "how-it-works.md"), "installer/transaction/phases.go", diagram())
}

// diagram is which phase follows which.
func diagram() string {
	var b strings.Builder
	b.WriteString("\n```mermaid\nstateDiagram-v2\n")
	name := func(p state.Phase) string { return cmp.Or(string(p), "[*]") }
	for _, p := range phases() {
		next := p.next
		if len(next) == 0 || p.succeeds {
			next = append(slices.Clone(next), "") // the journal is gone
		}
		for _, n := range next {
			fmt.Fprintf(&b, "    %s --> %s\n", name(p.name), name(n))
		}
	}
	b.WriteString("```\n\n")
	return b.String()
}

// tables are the phases and the steps as people read them.
func tables() string {
	var b strings.Builder
	b.WriteString("| phase | what holds from here on | noted in the journal | the recovery before the agent starts at a boot | the recovery on a host that is up |\n" +
		"| --- | --- | --- | --- | --- |\n")
	for _, p := range phases() {
		if p.name == "" {
			continue
		}
		var notes []string
		for _, what := range p.notes {
			notes = append(notes, string(what))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", p.name, p.guarantee, strings.Join(notes, ", "), p.boot, p.live)
	}
	b.WriteString("\nThe steps of a transaction are read from top to bottom on the way to a new version, and from bottom to top on the way back:\n\n" +
		"| step | begins when it is done | on the way back | begins when it is undone | needs of the journal for the way back |\n| --- | --- | --- | --- | --- |\n")
	for _, s := range steps() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", s.name, s.enters, cmp.Or(s.back, "nothing"), s.leaves, strings.Join(s.needs, ", "))
	}
	b.WriteString("\n")
	return b.String()
}
