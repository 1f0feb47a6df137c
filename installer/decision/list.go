package decision

import "slices"

// Type says what a condition is about.
type Type string

// Checks are all there are, the gravest first: the state of the host is that of the first
// condition that makes one. Faults come first, and what a person has set hides none.
//
// A check is one row in the file of its section, with the function that looks: name, severity, state, subject, meaning. What status,
// verify, metrics and docs/status.md say of it follows from the row.
var Checks = slices.Concat(records(), agentFaults(), runFaults(), risks(), waits(), notes())
