package decision

import (
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/version"
)

// Refusal is why a recorded release is refused now; empty if it is not any more. What the
// policy refused is asked of the policy as it is now, and not of the record: its owner may have
// followed the advice.
func (p Policy) Refusal(recorded *state.Refused) string {
	switch {
	case recorded == nil:
		return ""
	case recorded.Policy:
		return p.Target
	}
	return recorded.Reason
}

// Plural is the word for a number of things.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// PreviousToGoBackTo is the version that a rollback without a name goes back to; the zero
// Release where there is none, it failed, or its folder is gone.
func PreviousToGoBackTo(s *survey.Survey, c state.Config) version.Release {
	previous := c.Previous()
	if c.Status.Held != nil || c.PreviousFailed() != nil || previous.Version == "" || !s.Kept(previous) {
		return version.Release{}
	}
	return previous
}
