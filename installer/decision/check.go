// Package decision says what follows from a survey of the host. Its list of checks is what
// status, verify and the summary print, and what commands ask before their first change.
//
// It changes nothing, and looks at nothing but the survey and the question.
package decision

import (
	"context"
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
	Blind   Severity = "unknown" // it could not be looked at
	Busy    Severity = "busy"    // something is going on, or is waited for
	Setting Severity = "setting" // a person wants it so
	Note    Severity = "note"    // it is worth a line
)

// Type says what a condition is about.
type Type string

// NotLookedAt is the type of what a check could not look at.
const NotLookedAt Type = "unknown"

// Condition is one thing that is so about the host, and since when.
type Condition struct {
	Type     Type       `json:"type"`
	Severity Severity   `json:"severity"`
	Since    *time.Time `json:"since"` // null if nobody wrote it down
	Message  string     `json:"message"`

	Subject string `json:"-"` // what verify calls it
}

// Check is one row of the list.
type Check struct {
	Type     Type
	Severity Severity
	State    State  // that it makes; Idle for one that makes none
	Subject  string // what it is about, in a word or two, as verify has it
	Means    string // as the docs have it

	asked when
	find  func(*facts, *finder) error
}

// when is what has to hold for a check to be asked.
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

// rulesOut reports whether what holds says that a check which it does not have asked would find nothing: it is
// about an active version, or about updates that are on, and there are none.
func (c Check) rulesOut(holds when) bool {
	return holds&readable != 0 && c.asked&^holds&(active|enabled|follows) != 0
}

// TakesLong reports whether a check is asked in whole only if a person asks, and whether a part of it is asked always.
func (c Check) TakesLong() (long, part bool) { return c.asked&(deep|partly) != 0, c.asked&partly != 0 }

// Question is what is asked of a survey, and what find says.
type Question struct {
	Deep bool // also what takes longer

	Desired   version.Release // that find wants; zero if that is not known, or it names none
	CheckedAt *time.Time      // when find said so; nil: never
	Answered  bool            // find answered just now
	AskError  string          // why it did not
	Group     string
	NoGroup   bool       // find does not know the group
	Jitter    *time.Time // a run waits until then

	FollowsAnother string // the host follows another cluster than its agent's, and what to do

	VersionsLeft string        // versions that cannot be removed, and why
	Exposed      []string      // templates that others than root could change
	Unexamined   error         // why it cannot be told of another one
	Policy       Policy        // what the host's owner says of the active version
	Shared       *state.Shared // hosts on one data folder; nil if this host alone has it
	// Closed says which programs other users cannot run; it is asked if Deep.
	Closed func(context.Context) (string, error)
	// Refuses says what would refuse any change of the version; it is asked if Deep.
	Refuses func(context.Context) (why, err error)
	// Back says why `teleport-update rollback` would be refused; it is asked if Deep.
	Back func(context.Context) error
}

// Policy is what the policy of the host's owner says of the active version.
type Policy struct {
	Broken  error    // it cannot be relied on
	Gone    []string // rules that it had, and has not any more
	Refused string   // a rule against the active version, which stays nevertheless; empty: none
	// Target is why the policy refuses, as it is now, the release that it refused when that was
	// recorded; empty if it does not any more, or nothing is recorded.
	Target string
	// Back is why the policy refuses that the timer goes back from the active version, which
	// crashes again and again; empty if it does not.
	Back string
	// Unsigned is why the active version would be refused if signatures were required; empty
	// if it would not, or nobody looks at signatures.
	Unsigned string
}

// Verdict is what follows.
type Verdict struct {
	State       State
	Explanation string
	Conditions  []Condition // the gravest first, never nil
	Asked       []string    // subjects of faults that were looked for
	// NotKnown are checks that were not asked, or not in whole, or could not look, and found nothing: what they
	// are about may hold nevertheless.
	NotKnown []Type
	// NotSeen is what could not be looked at, with a line for each subject; Conditions have each reason once.
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

// finder collects what checks find.
type finder struct {
	check   Check
	all     []Condition
	notSeen []Condition
}

func (f *finder) found(since *time.Time, message string) {
	f.all = append(f.all, Condition{Type: f.check.Type, Severity: f.check.Severity, Since: since, Message: message, Subject: f.check.Subject})
}

// has reports whether a check of one of these types has found something.
func (f *finder) has(types ...Type) bool {
	return slices.ContainsFunc(f.all, func(c Condition) bool { return slices.Contains(types, c.Type) })
}

// blind notes what could not be looked at: each reason once as a condition, and each subject.
func (f *finder) blind(subject string, why error) {
	c := Condition{Type: NotLookedAt, Severity: Blind, Message: subject + " could not be looked at: " + why.Error(), Subject: subject}
	sameReason := func(other Condition) bool { return other.Message[len(other.Subject):] == c.Message[len(subject):] }
	if !slices.ContainsFunc(f.notSeen, sameReason) {
		f.all = append(f.all, c)
	}
	if !slices.Contains(f.notSeen, c) {
		f.notSeen = append(f.notSeen, c)
	}
}
