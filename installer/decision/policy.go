package decision

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
