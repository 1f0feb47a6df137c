package main

import (
	"fmt"
	"go/ast"
	"strings"
)

// syncs are the calls that put something on stable storage. SyncFileRange is
// none: it is advice.
var syncs = map[string]bool{"Sync": true, "SyncDir": true, "SyncFile": true, "syncBoth": true, "syncFolders": true, "syncFolder": true}

// removed makes a mutant of each sync, and of each write of the journal and of
// the configuration: the call is not made, and reports that all is well.
func removed(f file) []Mutant {
	var mutants []Mutant
	f.functions(func(fn *ast.FuncDecl) {
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if kind, without := f.without(call); kind != "" {
				mutants = append(mutants, f.mutant(call, fn.Name.Name, kind+": "+oneLine(f.of(call)),
					f.importing(f.replace(call.Pos(), call.End(), without))))
			}
			return true
		})
	})
	return mutants
}

// without says what a call does that a mutant leaves out, and the source that
// leaves it out: a function that evaluates the same values, so that nothing
// becomes unused.
func (f file) without(call *ast.CallExpr) (kind, text string) {
	name := called(call)
	values := []string{f.of(call.Fun)}
	for _, arg := range call.Args {
		values = append(values, f.of(arg))
	}
	text = "func(...any) error { return nil }(" + strings.Join(values, ", ") + ")"
	if syncs[name] {
		return "sync removed", text
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(f.name, "installer/") {
		return "", ""
	}
	receiver := f.of(method.X)
	switch {
	case strings.HasSuffix(values[0], ".j.save"), values[0] == "r.save":
		return "journal write removed", text
	case recorded(name) && strings.HasPrefix(f.name, "installer/transaction/"):
		// In memory it is as it should be.
		return "journal write removed", fmt.Sprintf("func() error { r := %s; save := r.save; defer func() { r.save = save }(); "+
			"r.save = func(*state.Journal) error { return nil }; return %s }()", recordOf(receiver), f.of(call))
	case name == "Save" && receiver != "answer":
		return "configuration write removed", text
	case name == "Remove" && len(values) == 2 && strings.HasSuffix(values[1], "Paths.Journal()"):
		return "journal's removal removed", text
	}
	return "", ""
}

// recorded reports whether a call writes the journal.
func recorded(name string) bool {
	return name == "enter" || name == "advance" || name == "enterProven" || strings.HasPrefix(name, "journal") && name != "journal" && !strings.HasPrefix(name, "journalIf")
}

// recordOf is the journal of what a call is made on.
func recordOf(receiver string) string {
	if receiver == "r" || strings.HasSuffix(receiver, ".j") {
		return receiver
	}
	return receiver + ".j"
}
