package decision

import "teleport-update/installer/state"

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

func policyBroken(h *host, f *finder) error {
	if why := h.Policy.Broken; why != nil {
		f.found(nil, why.Error()+"; the agent goes on, and its version is not changed")
	}
	return nil
}

func belowMinimum(h *host, f *finder) error {
	if why := h.Policy.Refused; why != "" {
		f.found(nil, "the active version is one that may not be switched to: "+why)
	}
	return nil
}

func unsigned(h *host, f *finder) error {
	if why := h.Policy.Unsigned; why != "" {
		f.found(nil, "if signatures were required, the active version would be refused: "+why)
	}
	return nil
}
