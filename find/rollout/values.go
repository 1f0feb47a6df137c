package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"teleport-update/internal/version"
)

// Mode says whether agents are updated at all. If it is unset, the other resource
// decides.
type Mode string

// The modes, from the least to the most restrictive.
const (
	Enabled   Mode = "enabled"
	Suspended Mode = "suspended"
	Disabled  Mode = "disabled"
)

// UnmarshalText takes the three words.
func (m *Mode) UnmarshalText(text []byte) error { return word(m, text, Enabled, Suspended, Disabled) }

// ToolsMode says whether client tools shall update.
type ToolsMode string

// The modes of client tools.
const (
	ToolsEnabled  ToolsMode = "enabled"
	ToolsDisabled ToolsMode = "disabled"
)

// UnmarshalText takes the two words.
func (m *ToolsMode) UnmarshalText(text []byte) error {
	return word(m, text, ToolsEnabled, ToolsDisabled)
}

// Strategy is how an update goes from group to group; unset means HaltOnError.
type Strategy string

// The strategies.
const (
	HaltOnError Strategy = "halt-on-error"
	TimeBased   Strategy = "time-based"
)

// UnmarshalText takes the two words.
func (s *Strategy) UnmarshalText(text []byte) error { return word(s, text, HaltOnError, TimeBased) }

// Schedule says which hosts get a version in which order; unset means Regular.
type Schedule string

// The schedules: group by group as the Config says, the same for urgent versions, or
// everybody now.
const (
	Regular   Schedule = "regular"
	Critical  Schedule = "critical"
	Immediate Schedule = "immediate"
)

// UnmarshalText takes the three words.
func (s *Schedule) UnmarshalText(text []byte) error {
	return word(s, text, Regular, Critical, Immediate)
}

// Unmatched selects the answer for hosts whose group is missing, empty or in no
// schedule. Unset means LastGroup.
type Unmatched string

// Such hosts get the answer of the last group, or stay as they are.
const (
	LastGroup Unmatched = "last-group"
	Hold      Unmatched = "hold"
)

// UnmarshalText takes the two words.
func (u *Unmatched) UnmarshalText(text []byte) error { return word(u, text, LastGroup, Hold) }

// OutcomeState is how an update of a host went.
type OutcomeState string

// The ways. Interrupted is no failure: it says nothing about the version.
const (
	OutcomeStarted     OutcomeState = "started"
	OutcomeSucceeded   OutcomeState = "succeeded"
	OutcomeFailed      OutcomeState = "failed"
	OutcomeRolledBack  OutcomeState = "rolled_back"
	OutcomeInterrupted OutcomeState = "interrupted"
)

// UnmarshalText takes the five words.
func (s *OutcomeState) UnmarshalText(text []byte) error {
	return word(s, text, OutcomeStarted, OutcomeSucceeded, OutcomeFailed, OutcomeRolledBack, OutcomeInterrupted)
}

// Day is a day of the week, or EveryDay.
type Day string

// EveryDay stands for all seven.
const EveryDay Day = "*"

// week is the days of the week in the order of time.Weekday.
var week = []Day{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// UnmarshalText takes the first three letters of the English words, and "*".
func (d *Day) UnmarshalText(text []byte) error {
	if day, ok := dayOf(string(text)); ok {
		*d = day
		return nil
	}
	return word(d, text, "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", EveryDay)
}

// dayOf takes weekdays in full and in any case, and as three letters.
func dayOf(text string) (Day, bool) {
	names := []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
	low := strings.ToLower(text)
	for i, name := range names {
		if low == name || low == name[:3] {
			return week[i], true
		}
	}
	return "", false
}

func word[T ~string](into *T, text []byte, words ...T) error {
	if slices.Contains(words, T(text)) {
		*into = T(text)
		return nil
	}
	var names []string
	for _, w := range words {
		names = append(names, string(w))
	}
	return fmt.Errorf("%.40q is not one of %s", text, strings.Join(names, ", "))
}

// Semver is a full semantic version without a leading "v", which is dropped when
// one is read.
type Semver string

// UnmarshalText takes a version with or without a leading "v".
func (s *Semver) UnmarshalText(text []byte) error {
	parsed, err := version.Parse(string(text))
	*s = Semver(parsed)
	return err
}

// Duration is written as in 1h30m.
type Duration time.Duration

// UnmarshalText takes the format of time.ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.40q is not a duration such as 1h30m", text)
	}
	*d = Duration(parsed)
	return nil
}

// MarshalText writes 2h rather than 2h0m0s.
func (d Duration) MarshalText() ([]byte, error) {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return []byte(text), nil
}

// Percent is a part of a group's hosts in whole percent, 0 to 100. It is written
// 10% or 10.
type Percent int

// UnmarshalText takes 10% and 10.
func (p *Percent) UnmarshalText(text []byte) error {
	n, ok := amount(strings.TrimSuffix(string(text), "%"))
	if !ok || n > 100 {
		return fmt.Errorf("%.40q is not a whole percentage from 0 to 100, such as 10%%", text)
	}
	*p = Percent(n)
	return nil
}

// MarshalText writes 10%.
func (p Percent) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d%%", int(p)), nil }

// Share is a number of hosts, or a part of a group's hosts in whole percent. It is
// written 5 or 10%.
type Share struct {
	N       int
	Percent bool
}

// UnmarshalText takes 5 and 10%.
func (s *Share) UnmarshalText(text []byte) error {
	digits, percent := strings.CutSuffix(string(text), "%")
	n, ok := amount(digits)
	if !ok || percent && n > 100 {
		return fmt.Errorf("%.40q is neither a number of hosts, such as 5, nor a whole percentage up to 100%%", text)
	}
	*s = Share{n, percent}
	return nil
}

func (s Share) String() string {
	if s.Percent {
		return strconv.Itoa(s.N) + "%"
	}
	return strconv.Itoa(s.N)
}

// MarshalJSON writes a number as one.
func (s Share) MarshalJSON() ([]byte, error) { return json.Marshal(s.plain()) }

// UnmarshalJSON takes what MarshalJSON writes.
func (s *Share) UnmarshalJSON(data []byte) error {
	return s.UnmarshalText(bytes.Trim(data, `"`))
}

// MarshalYAML writes a number as one.
func (s Share) MarshalYAML() (any, error) { return s.plain(), nil }

func (s Share) plain() any {
	if s.Percent {
		return s.String()
	}
	return s.N
}

// Of returns the number of hosts that the share allows. A percentage above 0 allows at
// least one host, or a small group could never be updated; 0 allows none.
func (s Share) Of(hosts int) int {
	switch {
	case !s.Percent:
		return s.N
	case s.N == 0:
		return 0
	}
	return max(1, s.N*hosts/100)
}

// maxAmount is far above any fleet, and a hundred times it is a number still.
const maxAmount = 1_000_000_000

var amountForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})$`)

func amount(digits string) (int, bool) {
	if !amountForm.MatchString(digits) {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n <= maxAmount
}
