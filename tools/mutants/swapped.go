package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// pair is two steps of one function, in their order. A step is the name of a call
// in it, or the name and one of its arguments, as in "enter:switched", or, as in
// "row:links", a row of the list that it returns, by its name.
type pair struct {
	file, function string
	first, second  string
}

// pairs are the orders that the promise hangs from. One that is no longer found
// is an error: whoever changed the order has to say what it is now.
var pairs = []pair{
	// The journal is on stable storage before the first change that it stands for,
	// and the units that would recover are there before it.
	{"installer/transaction/transact.go", "prepare", "InstallUnits", "enter:begun"},
	// A backup before the version that may migrate is linked; nothing is restored
	// before the journal says that it may be.
	{"installer/transaction/steps.go", "steps", "row:backup", "row:links"},
	{"installer/transaction/steps.go", "steps", "row:links", "row:unit"},
	{"installer/transaction/steps.go", "steps", "row:reload", "row:database"},
	{"installer/transaction/steps.go", "steps", "row:links", "row:database"},
	{"installer/transaction/steps.go", "steps", "row:database", "row:watch"},

	// Forward: the outcome, then the updater's own link, then the journal goes.
	{"installer/transaction/commit.go", "finish", "seeInPlace", "LinkUpdater"},
	{"installer/transaction/commit.go", "finish", "Keep", "LinkUpdater"},
	{"installer/transaction/commit.go", "finish", "Keep", "Save"},
	{"installer/transaction/commit.go", "finish", "Save", "LinkUpdater"},
	{"installer/transaction/commit.go", "finish", "Save", "close"},
	{"installer/transaction/commit.go", "finish", "LinkUpdater", "close"},
	{"installer/transaction/commit.go", "reconcile", "journalReconciled", "Repair"},

	// Another updater: its timer is stopped while systemd knows it, and ours is on once
	// its files are gone.
	{"installer/transaction/replace.go", "replaceOthers", "StopTimer", "RemoveReplaced"},
	{"installer/transaction/replace.go", "replaceOthers", "RemoveReplaced", "InstallUnits"},
	{"installer/host/originals.go", "WriteOriginals", "MkdirAll", "WriteFile"},
	{"installer/host/originals.go", "Disclaim", "DropSaved", "WriteOriginals"},
	{"installer/host/placing.go", "makeLinks", "Claim", "Link"},
	{"installer/host/placing.go", "Repair", "makeLinks", "Disclaim"},
	{"installer/host/placing.go", "Repair", "makeLinks", "PlaceUnit"},

	// Back: the journal says so first; then the steps backwards, with that they are
	// back; the outcome before the journal goes.
	{"installer/transaction/undo.go", "undoSteps", "enterRollingBack", "undo"},
	{"installer/transaction/undofiles.go", "restoreUnit", "RestoreUnit", "reloadSystemd"},
	{"installer/transaction/recoveries.go", "closeUndone", "RemoveUnits", "Save"},
	{"installer/transaction/recoveries.go", "closeUndone", "ForgetFirst", "Save"},
	{"installer/transaction/recoveries.go", "closeUndone", "Save", "close"},
	{"installer/transaction/boot.go", "close", "dropSecondName", "Remove"},

	{"installer/transaction/forward.go", "placeUnit", "PlaceUnit", "placeReport"},

	// A release: the tree, then what marks it as whole, then its name; the backup
	// of the one that it replaces is in both by then.
	{"versions/publish.go", "publish", "LinkFiles", "Exchange"},
	{"installer/host/links.go", "ApplyLinks", "save", "apply"},
	{"installer/host/links.go", "ApplyLinks", "apply", "syncFolders"},
	{"installer/host/place.go", "save", "MkdirAll", "CloneFile"},

	// A backup: no backup.yaml beside a database that it does not describe.
	{"backup/take.go", "Take", "fill", "Sync"},
	{"backup/take.go", "Take", "Sync", "publish"},
	{"backup/take.go", "publish", "Remove", "UnlinkNoSync"},
	{"backup/take.go", "publish", "Remove", "Replace"},
	{"backup/take.go", "publish", "UnlinkNoSync", "Replace"},
	{"backup/take.go", "publish", "Replace", "write"},
	{"backup/place.go", "replace", "fill", "UnlinkNoSync"},
	{"backup/place.go", "replace", "UnlinkNoSync", "SyncDir"},
	{"backup/place.go", "replace", "SyncDir", "Replace"},
	{"backup/place.go", "fill", "copyOpened", "Sync"},

	// Files: content and attributes, sync, name, sync.
	{"internal/durable/durable.go", "replace", "fill", "Sync"},
	{"internal/durable/durable.go", "replace", "Sync", "Rename"},
	{"internal/durable/durable.go", "replace", "Rename", "SyncDir"},
	{"internal/durable/durable.go", "Remove", "UnlinkNoSync", "SyncDir"},
	{"internal/durable/durable.go", "RemoveAll", "SyncDir", "RemoveTemp"},
	{"internal/durable/clone.go", "LinkFiles", "Link", "SyncDir:to"},

	// A unit is enabled once its file is there, and disabled before that goes.
	{"systemd/units.go", "install", "WriteFile", "RelinkNoSync"},
	{"systemd/units.go", "install", "MkdirAll", "RelinkNoSync"},
}

// swapped makes a mutant of each pair.
func swapped(files []file) ([]Mutant, error) {
	var mutants []Mutant
	for _, p := range pairs {
		m, err := p.swap(files)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %s before %s: %w", p.file, p.function, p.first, p.second, err)
		}
		mutants = append(mutants, m)
	}
	return mutants, nil
}

func (p pair) swap(files []file) (Mutant, error) {
	for _, f := range files {
		if f.name != p.file {
			continue
		}
		var m Mutant
		err := fmt.Errorf("the pair is not found")
		f.functions(func(fn *ast.FuncDecl) {
			if fn.Name.Name != p.function {
				return
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if list, ok := n.(*ast.CompositeLit); ok && strings.HasPrefix(p.first, "row:") {
					if found, ok := p.swapRows(f, fn, list); ok {
						m, err = found, nil
					}
				}
				// The innermost list that holds both is visited last.
				if block, ok := n.(*ast.BlockStmt); ok {
					if found, ok := p.swapIn(f, fn, block); ok {
						m, err = found, nil
					}
				}
				return true
			})
		})
		return m, err
	}
	return Mutant{}, fmt.Errorf("there is no such file")
}

// swapRows changes two rows of a list.
func (p pair) swapRows(f file, fn *ast.FuncDecl, list *ast.CompositeLit) (Mutant, bool) {
	row := func(name string) ast.Expr {
		name = strings.TrimPrefix(name, "row:")
		for _, e := range list.Elts {
			if strings.HasPrefix(f.of(e), "{name: \""+name+"\",") {
				return e
			}
		}
		return nil
	}
	a, b := row(p.first), row(p.second)
	if a == nil || b == nil {
		return Mutant{}, false
	}
	text := f.between(f.ast.FileStart, a.Pos()) + f.of(b) + f.between(a.End(), b.Pos()) + f.of(a) + f.between(b.End(), f.ast.FileEnd)
	return f.mutant(a, fn.Name.Name, fmt.Sprintf("%s and %s swapped", p.first, p.second), []byte(text)), true
}

// span is one step: a statement, with the look at its error that follows it.
type span struct{ from, to token.Pos }

// swapIn changes the two steps of a list.
func (p pair) swapIn(f file, fn *ast.FuncDecl, block *ast.BlockStmt) (Mutant, bool) {
	first, second := -1, -1
	for i, s := range block.List {
		if first < 0 && f.has(s, p.first) {
			first = i
		} else if first >= 0 && second < 0 && f.has(s, p.second) {
			second = i
		}
	}
	if second < 0 {
		return Mutant{}, false
	}
	a, b := step(block.List, first), step(block.List, second)
	if a.to > b.from {
		return Mutant{}, false
	}
	textA, textB, end := f.between(a.from, a.to), f.between(b.from, b.to), ""
	if r, ok := block.List[second].(*ast.ReturnStmt); ok {
		if len(r.Results) != 1 {
			return Mutant{}, false
		}
		textB, end = "if err := "+f.of(r.Results[0])+"; err != nil {\nreturn err\n}", "\nreturn nil"
	}
	// The second goes before the first, or, where it needs what is made in between,
	// the first behind the second.
	between := f.between(a.to, b.from)
	body := textB + "\n" + textA + between + end
	if needs(block.List[second], block.List[first:second]) {
		body = between + textB + "\n" + textA + end
	}
	text := f.between(f.ast.FileStart, a.from) + body + f.between(b.to, f.ast.FileEnd)
	return f.mutant(block.List[first], fn.Name.Name, fmt.Sprintf("%s and %s swapped", p.first, p.second), []byte(text)), true
}

// needs reports whether a statement uses a name that one of those before defines.
func needs(s ast.Stmt, before []ast.Stmt) bool {
	own := map[string]bool{}
	ast.Inspect(s, func(n ast.Node) bool {
		for _, name := range defined(n) {
			own[name] = true
		}
		return true
	})
	for _, b := range before {
		for _, name := range defined(b) {
			if !own[name] && mentions(s, name) {
				return true
			}
		}
	}
	return false
}

// defined are the names that an assignment makes.
func defined(n ast.Node) (names []string) {
	if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
		for _, left := range a.Lhs {
			if id, ok := left.(*ast.Ident); ok {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

func (f file) between(from, to token.Pos) string {
	return string(f.text[f.offset(from):f.offset(to)])
}

// step takes what follows a statement with it, if that looks at its error only.
func step(list []ast.Stmt, i int) span {
	s := span{list[i].Pos(), list[i].End()}
	if _, ok := list[i].(*ast.AssignStmt); !ok || i+1 == len(list) {
		return s
	}
	if next, ok := list[i+1].(*ast.IfStmt); ok && next.Init == nil {
		if c, ok := next.Cond.(*ast.BinaryExpr); ok && c.Op == token.NEQ {
			if x, ok := c.X.(*ast.Ident); ok && x.Name == "err" {
				s.to = next.End()
			}
		}
	}
	return s
}

// has reports whether a call of that name is in a statement.
func (f file) has(s ast.Stmt, what string) (yes bool) {
	name, argument, _ := strings.Cut(what, ":")
	ast.Inspect(s, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && called(call) == name {
			yes = yes || argument == ""
			for _, a := range call.Args {
				yes = yes || argument != "" && mentions(a, argument)
			}
		}
		return true
	})
	return yes
}

func mentions(n ast.Node, name string) (yes bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			yes = true
		}
		return true
	})
	return yes
}
