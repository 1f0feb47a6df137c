package decision

import (
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
	"teleport-update/internal/version"
)

// Refusal returns why a recorded release is refused now; empty if it is not any more. If the policy refused it, the current policy decides,
// and not the record: the owner may have followed the advice.
func (p Policy) Refusal(recorded *state.Refused) string {
	switch {
	case recorded == nil:
		return ""
	case recorded.Policy:
		return p.Target
	}
	return recorded.Reason
}

// Plural returns the word for a number of things.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// PreviousToGoBackTo returns the version that a rollback without a name goes back to; the zero Release if there is no such version, it
// failed, or its folder is gone.
func PreviousToGoBackTo(s *survey.Survey, c state.Config) version.Release {
	previous := c.Previous()
	if c.Status.Held != nil || c.PreviousFailed() != nil || previous.Version == "" || !s.Kept(previous) {
		return version.Release{}
	}
	return previous
}
