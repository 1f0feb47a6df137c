package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"teleport-update/installer/decision"
	"teleport-update/internal/console"
)

// Finding is one line of verify.
type Finding struct {
	Subject string        `json:"subject"`
	OK      bool          `json:"ok"`
	Blind   bool          `json:"unknown"` // it could not be looked at: no fault, and no success
	Type    decision.Type `json:"type"`    // empty for what no check of status looks at, and for what is well
	Detail  string        `json:"detail"`
}

// Findings are the lines for all checks that were asked: one for each condition, one for each subject that
// could not be looked at, and one for each subject of a fault with which nothing is wrong. fine says how a
// subject is that is well.
func Findings(v decision.Verdict, fine map[string]string) (all []Finding) {
	for _, c := range slices.Concat(v.Conditions, v.NotSeen) {
		f := Finding{Subject: c.Subject, OK: c.Severity != decision.Fault && c.Severity != decision.Blind,
			Blind: c.Severity == decision.Blind, Type: c.Type, Detail: c.Message}
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	for _, subject := range v.Asked {
		found := func(f Finding) bool { return f.Subject == subject && f.Type != "" }
		if !slices.ContainsFunc(all, found) {
			all = append(all, Finding{Subject: subject, OK: true, Detail: cmp.Or(fine[subject], "nothing is wrong")})
		}
	}
	return all
}

// WriteFindings prints what was found for a person, and returns how much of it is wrong, and
// how much could not be looked at.
func WriteFindings(w io.Writer, findings []Finding) (problems, blind int) {
	for _, f := range findings {
		mark := "ok  "
		switch {
		case f.Blind:
			mark = "??  "
			blind++
		case !f.OK:
			mark = "BAD "
			problems++
		}
		fmt.Fprintf(w, "%s %s: %s\n", mark, console.Line(f.Subject), console.Line(f.Detail))
	}
	return problems, blind
}
