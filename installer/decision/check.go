// Package decision says what follows from a survey of the host. Status, verify and the summary print the results of its checks, and
// commands ask the checks before their first change.
//
// It changes nothing, and looks at nothing but the survey and the question.
package decision

import (
	"context"
	"fmt"
	"slices"
	"time"

	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/version"
)

// State is the host's state in one word.
type State string

const (
	Disabled       State = "disabled"
	Pinned         State = "pinned"
	Held           State = "held"
	Idle           State = "idle"
	Waiting        State = "waiting"
	Updating       State = "updating"
	BackingOff     State = "backing_off"
	Failing        State = "failing"
	Unstable       State = "unstable"
	NeedsAttention State = "needs_attention"
	Unknown        State = "unknown"
)

// Alarming reports whether somebody should look.
func (s State) Alarming() bool { return s == Failing || s == Unstable || s == NeedsAttention }

// Severity is how much a condition matters.
type Severity string

const (
	Fault   Severity = "fault"   // somebody has to look
	Blind   Severity = "unknown" // the look failed
	Busy    Severity = "busy"    // something is going on, or is waited for
	Setting Severity = "setting" // a person wants it so
	Note    Severity = "note"    // it is worth a line
)

// Type says what a condition is about.
type Type string

// NotLookedAt is the type of a condition for a look that failed.
const NotLookedAt Type = "unknown"

// Condition is a finding about the host: what is wrong, since when, and what to do.
type Condition struct {
	Type     Type       `json:"type"`
	Severity Severity   `json:"severity"`
	What     string     `json:"what"`    // with its cause, and a warning
	Since    *time.Time `json:"since"`   // null if nobody wrote it down
	Do       string     `json:"do"`      // the whole advice, the first step first
	Message  string     `json:"message"` // all that is known, for status --explain

	Subject string `json:"-"` // for verify
}

// Check is one row of the list.
type Check struct {
	Type     Type
	Severity Severity
	State    State  // of the host, if the check finds something; Idle if that changes no state
	Subject  string // of the check, in a word or two, for verify
	Means    string // for the docs

	asked when
	find  func(*facts, *finder) error
}

// when is the set of conditions under which a check is asked.
type when int

const (
	settled  when = 1 << iota // no transaction is open: else links, unit and agent are in between
	active                    // a version is active
	enabled                   // updates are on
	follows                   // and the version follows the cluster
	deep                      // a person asks: it takes too long for each run of the timer
	readable                  // updates.yaml can be read
	partly                    // always: a part of it is looked at only if a person asks
	quiet                     // no updater is at work on a transaction: one that was cut off may be open
)

// rulesOut reports whether a check that is not asked would find nothing: it is about an active version, or about updates that are on, and
// updates.yaml says otherwise.
func (c Check) rulesOut(holds when) bool {
	return holds&readable != 0 && c.asked&^holds&(active|enabled|follows) != 0
}

// TakesLong reports whether the whole check is asked only if a person asks, and whether a part of it is asked always.
func (c Check) TakesLong() (long, part bool) { return c.asked&(deep|partly) != 0, c.asked&partly != 0 }

// Question is the question to a survey, with the answer of find.
type Question struct {
	Deep bool // also slow looks

	Desired   version.Release // that find wants; zero if that is not known, or it names none
	CheckedAt *time.Time      // when find said so; nil: never
	// LastAnswer is the recorded time of find's last answer to a run; zero if there is none.
	LastAnswer time.Time
	Answered   bool   // find answered just now
	AskError   string // why it did not answer
	Group      string
	NoGroup    bool       // find does not know the group
	Jitter     *time.Time // a run waits until then

	FollowsAnother string // the host follows another cluster than its agent's, and what to do

	VersionsLeft string        // versions that cannot be removed, and why
	Exposed      []Exposed     // templates that users other than root could change
	Unexamined   error         // why another template could not be examined
	Policy       Policy        // the owner's policy on the active version
	Shared       *state.Shared // hosts on one data folder; nil if this host alone has it
	// Closed says which programs other users cannot run; it is asked if Deep.
	Closed func(context.Context) (string, error)
	// Refuses returns the reason to refuse any change of the version; it is asked if Deep.
	Refuses func(context.Context) (why, err error)
	// Back returns why `teleport-update rollback` would be refused; it is asked if Deep.
	Back func(context.Context) error
}

// Exposed is a template with a folder in which users other than root may exchange a release.
type Exposed struct {
	Template string
	Why      error // it names the folder
}

func (e Exposed) parts() (what, advice string) {
	return fmt.Sprintf("users other than root could change what root runs, template %s: %v; ", e.Template, e.Why),
		fmt.Sprintf("make the folder of %s writable by root only", e.Template)
}

func (e Exposed) String() string {
	what, advice := e.parts()
	return what + advice
}

// Policy is the result of the owner's policy for the active version.
type Policy struct {
	Broken  error    // it cannot be relied on
	Gone    []string // rules that it had, and no longer has
	Refused string   // a rule against the active version, which stays nevertheless; may be empty
	// Target is why the current policy refuses the release that is recorded as refused; empty if it does not any more, or if nothing is
	// recorded.
	Target string
	// Back is why the policy refuses the timer's rollback from the active version, which crashes again and again; empty if it does not.
	Back string
	// Unsigned is why the active version would be refused if signatures were required; empty if it would not, or if signatures are off.
	Unsigned string
}

// Verdict is the result of all checks.
type Verdict struct {
	State       State
	Explanation string
	Conditions  []Condition // the gravest first, never nil
	Asked       []string    // subjects of checks for faults
	// NotKnown are checks that found nothing, and that were not asked, or not in whole, or whose look failed: they might find something.
	NotKnown []Type
	// NotSeen has a line for each subject whose look failed; Conditions have each reason once.
	NotSeen []Condition
}

// facts is a survey with the question, as checks read them.
type facts struct {
	context.Context
	*survey.Survey
	Question
	c     state.Config
	agent survey.Agent
	blind error // why the agent could not be looked at
}

// finder collects the findings of checks.
type finder struct {
	check   Check
	all     []Condition
	notSeen []Condition
}

// found adds a finding: what is wrong, ending with a colon or semicolon, and what to do. Without an advice, found looks for it in what.
func (f *finder) found(since *time.Time, what, advice string) {
	message := what + advice
	if advice == "" {
		what, advice = split(what)
	}
	f.foundWith(since, what, advice, message)
}

// foundError is found for an error, after words that lead to it.
func (f *finder) foundError(lead string, why error) {
	what, fix := parts(why)
	if fix != "" {
		what += ": "
	}
	f.foundWith(nil, lead+what, fix, lead+what+fix)
}

// foundWith is found with further facts: message has them all.
func (f *finder) foundWith(since *time.Time, what, advice, message string) {
	c := f.check.condition(what, advice)
	c.Since, c.Message = since, message
	f.all = append(f.all, c)
}

// has reports whether a check of one of these types has found something.
func (f *finder) has(types ...Type) bool {
	return slices.ContainsFunc(f.all, func(c Condition) bool { return slices.Contains(types, c.Type) })
}

// blind notes a look that failed: each reason once as a condition, and each subject.
func (f *finder) blind(subject string, why error) {
	text := subject + " could not be looked at"
	what, fix := split(text + ": " + why.Error())
	c := Check{Type: NotLookedAt, Severity: Blind, Subject: subject}.condition(what, fix)
	c.Message = text + ": " + why.Error()
	sameReason := func(other Condition) bool { return other.Message[len(other.Subject):] == c.Message[len(subject):] }
	if !slices.ContainsFunc(f.notSeen, sameReason) {
		f.all = append(f.all, c)
	}
	if !slices.Contains(f.notSeen, c) {
		f.notSeen = append(f.notSeen, c)
	}
}
