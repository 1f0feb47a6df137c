package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

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
