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
				mutants = append(mutants, f.mutant(call, fn.Name.Name, kind+": "+oneLine(f.of(call)), f.replace(call.Pos(), call.End(), without)))
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
	journal := receiver == "j" || strings.HasSuffix(receiver, ".j")
	switch {
	case name == "enter" && journal:
		// In memory it is as it should be.
		return "journal write removed", fmt.Sprintf("func(j *journal, _ string, p phase) error { j.Phase = p; return nil }(%s, %s)", receiver, strings.Join(values[1:], ", "))
	case name == "enterProven":
		return "journal write removed", fmt.Sprintf("func(_ any, j *journal) error { j.Phase = proven; return nil }(%s)", strings.Join(values, ", "))
	case name == "save" && journal:
		return "journal write removed", text
	case name == "save":
		return "configuration write removed", text
	case name == "Remove" && len(values) == 2 && strings.HasSuffix(values[1], "Paths.Journal()"):
		return "journal's removal removed", text
	}
	return "", ""
}
