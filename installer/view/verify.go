package view

import (
	"fmt"
	"io"
	"slices"

	"teleport-update/installer/decision"
	"teleport-update/internal/console"
)

// Finding is the result of one check of verify.
type Finding struct {
	Subject string        `json:"subject"`
	OK      bool          `json:"ok"`
	Blind   bool          `json:"unknown"` // the look failed: no fault, and no success
	Type    decision.Type `json:"type"`    // empty if no check of status looks at the subject, or nothing is wrong
	Detail  string        `json:"detail"`  // empty if the check found nothing worth a line
}

// Findings returns a finding for each condition, for each subject whose look failed, and for each subject of a fault with which nothing is
// wrong. It has none for the subjects in unseen, which nobody looked at.
func Findings(v decision.Verdict, unseen ...string) (all []Finding) {
	for _, c := range slices.Concat(v.Conditions, v.NotSeen) {
		f := Finding{Subject: c.Subject, OK: c.Severity != decision.Fault && c.Severity != decision.Blind,
			Blind: c.Severity == decision.Blind, Type: c.Type, Detail: c.Message}
		if !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	for _, subject := range v.Asked {
		found := func(f Finding) bool { return f.Subject == subject && f.Type != "" }
		if !slices.ContainsFunc(all, found) && !slices.Contains(unseen, subject) {
			all = append(all, Finding{Subject: subject, OK: true})
		}
	}
	return all
}

// WriteFindings prints the findings for a person, faults first, and checks that found nothing as a number. It returns the number of
// problems, and of failed looks.
func WriteFindings(w io.Writer, findings []Finding) (problems, blind int) {
	marked := map[string][]Finding{}
	well := 0
	for _, f := range findings {
		switch {
		case f.Blind:
			marked["??  "] = append(marked["??  "], f)
		case !f.OK:
			marked["BAD "] = append(marked["BAD "], f)
		case f.Detail == "":
			well++
		default:
			marked["ok  "] = append(marked["ok  "], f)
		}
	}
	for _, mark := range []string{"BAD ", "??  ", "ok  "} {
		for _, f := range marked[mark] {
			fmt.Fprintf(w, "%s %s: %s\n", mark, console.Line(f.Subject), console.Line(f.Detail))
		}
	}
	others := "other "
	if len(marked) == 0 {
		others = ""
	}
	if well > 0 {
		fmt.Fprintf(w, "%d %s%s: ok\n", well, others, decision.Plural(well, "check", "checks"))
	}
	return len(marked["BAD "]), len(marked["??  "])
}
