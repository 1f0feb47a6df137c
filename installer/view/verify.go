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
	Blind   bool          `json:"unknown"` // the look failed: no fault, and no success
	Type    decision.Type `json:"type"`    // empty if no check of status looks at the subject, or nothing is wrong
	Detail  string        `json:"detail"`
}

// Findings returns the lines for all checks that were asked: one for each condition, one for each subject whose look failed, and one for
// each subject of a fault with which nothing is wrong. fine has the texts for the latter.
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

// WriteFindings prints the findings for a person, and returns the number of problems, and of failed looks.
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
