package main

import (
	"errors"
	"fmt"
	"go/ast"
)

// check is a condition that stands between a hostile server and the host. Its mutant is one in
// which the condition never holds: what it refuses is accepted.
type check struct{ file, function, condition string }

// checks are those of signatures and of the policy. "Accepted what it should not" is the
// commonest fault of verifiers. One that is no longer found is an error.
var checks = []check{
	{"versions/signature/signature.go", "ParseKeys", "len(data) > MaxKeys"},
	{"versions/signature/signature.go", "ParseKeys", "begun != 0"},
	{"versions/signature/signature.go", "ParseKeys", "len(keys) == 0"},
	{"versions/signature/signature.go", "parseKey", `block.Type != "PUBLIC KEY"`},
	{"versions/signature/signature.go", "parseKey", `strings.Contains(block.Type, "PRIVATE")`},
	{"versions/signature/signature.go", "parseKey", "!ok || key.Curve != elliptic.P256()"},
	{"versions/signature/signature.go", "Verify", "err != nil || len(sum) != sha256.Size"},
	{"versions/signature/signature.go", "decode", "len(file) > MaxFile"},
	{"versions/signature/signature.go", "decode", `line == ""`},
	{"versions/signature/signature.go", "decode", `strings.ContainsAny(line, "\r\n")`},
	{"versions/signature/signature.go", "decode", "len(der) > maxDER"},

	{"versions/fetch/verifier.go", "readSibling", "more"},
	{"versions/fetch/receive.go", "stream", "got != d.digest"},

	{"installer/policy/policy.go", "load", "p.Signatures == Require"},
	{"installer/policy/policy.go", "missing", "seen.Policy && !p.File"},
	{"installer/policy/policy.go", "missing", "seen.Keys && len(p.Keys) == 0 && !p.off"},
	{"installer/policy/parse.go", "Parse", `len(bytes.Trim(data, " \t\r\n\x00")) == 0`},
	{"installer/policy/parse.go", "parseReleases", "!versions.IsDigest(sum)"},
	{"installer/policy/rules.go", "Floors", "p.withdrawn(r.Version)"},
	{"installer/policy/rules.go", "Floors", `p.Minimum != "" && version.Compare(r.Version, p.Minimum) < 0`},
	{"installer/policy/verifier.go", "admit", "!v.NoFloors"},
	{"installer/policy/rules.go", "listing", `len(digests) > 0 && digest != "" && !slices.Contains(digests, digest)`},
	{"installer/policy/rules.go", "Floors", "refusal != nil"},
	{"installer/policy/verifier.go", "admit", "refusal != nil"},
	{"installer/policy/verifier.go", "Kept", "refusal != nil"},
	{"installer/policy/verifier.go", "verify", "errors.Is(err, fetch.ErrNotFound)"},
	{"installer/policy/verifier.go", "verify", "tooLong"},
	{"installer/policy/verifier.go", "tolerate", "v.Policy.Signatures == Require"},
	{"installer/policy/verifier.go", "mislabelled", `says.Version == ""`},
	{"installer/policy/verifier.go", "mislabelled", "err != nil || own != r.Version"},
	{"installer/policy/verifier.go", "mislabelled", "says.Top != top"},
	{"installer/policy/verifier.go", "Kept", "file == nil"},
	{"installer/policy/verifier.go", "Kept", "mismatch != nil"},
	{"installer/policy/verifier.go", "CheckEdition", "says != r.Edition"},
	{"installer/policy/verifier.go", "Admit", `v.Has == "" || v.Has != t.SHA256`},
	{"installer/policy/verifier.go", "verify", "form"},
	{"installer/policy/verifier.go", "verify", "mismatch != nil"},
	{"installer/policy/policy.go", "load", "open != nil"},
	{"installer/policy/policy.go", "loadKeys", "open != nil"},

	{"installer/owner.go", "seenOf", "s == nil"},
	{"installer/owner.go", "seePolicy", "err != nil"},
	{"installer/owner.go", "allowBy", "err == nil"},
	{"installer/owner.go", "allowBy", "err == nil && !named"},
	{"installer/owner.go", "guardOf", "err != nil"},
	{"installer/smoke.go", "checkEdition", "refusal != nil"},
	{"installer/obtain.go", "obtainLocked", "refusal != nil"},
	{"installer/rollback.go", "rollbackRequest", "refusal != nil"},
	{"installer/installer.go", "transact", "refusal != nil"},

	{"internal/trust/trust.go", "Path", "err != nil && err != errMissing"},
	{"internal/trust/trust.go", "Path", "info.IsDir()"},
	{"internal/trust/trust.go", "walk", "!Ours(info)"},
	{"internal/trust/trust.go", "onlyRootWrites", "mode&0o002 != 0"},
	{"internal/trust/trust.go", "onlyRootWrites", `writer != ""`},
	{"internal/trust/trust.go", "onlyRootWrites", "st.Gid != 0"},
	{"internal/trust/trust.go", "rootsFolder", `err == nil && writer != ""`},
}

// unchecked makes a mutant of each check.
func unchecked(files []file) ([]Mutant, error) {
	var mutants []Mutant
	var errs []error
	for _, c := range checks {
		m, ok := c.off(files)
		if !ok {
			errs = append(errs, fmt.Errorf("%s %s: the check %q is not found", c.file, c.function, c.condition))
			continue
		}
		mutants = append(mutants, m)
	}
	return mutants, errors.Join(errs...)
}

// off turns a check off.
func (c check) off(files []file) (m Mutant, found bool) {
	for _, f := range files {
		if f.name != c.file {
			continue
		}
		f.functions(func(fn *ast.FuncDecl) {
			if fn.Name.Name != c.function || found {
				return
			}
			for _, condition := range conditions(fn) {
				if f.of(condition) == c.condition && !found {
					text := f.replace(condition.Pos(), condition.End(), "("+c.condition+") && false")
					m, found = f.mutant(condition, fn.Name.Name, "check removed: "+oneLine(c.condition), text), true
				}
			}
		})
	}
	return m, found
}

// conditions are those of the statements if in a function, and of the cases that stand for one.
func conditions(fn *ast.FuncDecl) (all []ast.Expr) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			all = append(all, n.Cond)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, clause := range n.Body.List {
					all = append(all, clause.(*ast.CaseClause).List...)
				}
			}
		}
		return true
	})
	return all
}
