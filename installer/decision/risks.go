package decision

import "fmt"

const (
	EnableFailed    Type = "enable_failed"
	TargetRefused   Type = "target_refused"
	ProxyConflict   Type = "proxy_conflict"
	RestartPending  Type = "restart_pending"
	TemplateExposed Type = "template_exposed"
	ProgramsClosed  Type = "programs_closed"
	OtherAgents     Type = "other_agents"
)

// risks are faults that harm nobody before somebody acts, and looks that failed.
func risks() []Check {
	return []Check{
		{EnableFailed, Fault, NeedsAttention, "enable", "the first `enable` failed, and nothing tries it again by itself", settled | readable,
			enableFailed},
		{TargetRefused, Fault, NeedsAttention, "target", "the update to the version that the cluster wants is refused: it would " +
			"put the host at risk", follows, targetRefused},
		{ProxyConflict, Fault, NeedsAttention, "proxy", "the host asks another proxy for its version than the one that the agent's " +
			"configuration names, and nobody allowed that: the agent may have been moved to another cluster",
			settled | active | follows, proxyConflict},
		{RestartPending, Fault, NeedsAttention, "restart pending", "the agent runs with other arguments, variables or as another " +
			"user than its unit says: a reload keeps those that it was started with", settled | active, restartPending},
		{TemplateExposed, Fault, NeedsAttention, "template", "a template leads into a folder in which users other than root can " +
			"exchange a release", readable, templateExposed},
		{ProgramsClosed, Fault, NeedsAttention, "other users", "users other than root cannot run the linked programs", settled | active | deep,
			programsClosed},
		{OtherAgents, Fault, NeedsAttention, "other agents", "a service beside the agent's runs an agent by the linked program: its version " +
			"changes without a backup of its database, and nobody watches it", settled | active | deep, otherAgents},
		{NotLookedAt, Blind, Unknown, "", "something could not be looked at, and nobody knows how it is", 0, nil},
	}
}

func enableFailed(h *facts, f *finder) error {
	if e := h.c.Status.FirstEnable; e != nil && h.c.Spec.ActiveVersion == "" {
		then := fmt.Sprintf("remove the cause, then `%s`", e.Command)
		f.found(&e.Time, "the first enable failed, and nothing tries it again by itself: "+e.Error+"; ", then)
	}
	return nil
}

func targetRefused(h *facts, f *finder) error {
	if h.aim() == TargetRefused {
		refused := h.c.Status.Refused
		f.found(nil, "the update to version "+refused.Version+" is refused: "+h.Policy.Refusal(refused), "")
	}
	return nil
}

func proxyConflict(h *facts, f *finder) error {
	if h.FollowsAnother != "" {
		f.found(nil, h.FollowsAnother+h.alsoSwitches(), "")
	}
	return nil
}

func restartPending(h *facts, f *finder) error {
	p := h.agent.Pending
	if h.blind != nil || !p.Is() {
		return h.blind
	}
	advice := ""
	switch {
	case !h.agent.Is(h.c.Active()): // the restart starts another version than the one that runs
		advice = h.restart(h.agent.Runs)
	case h.c.Spec.Enabled:
		advice = h.adviseRestart("`teleport-update update --restart` restarts it")
	default: // that command leaves the host alone
		advice = h.adviseRestart("`systemctl restart teleport` restarts it")
	}
	const what = "the agent runs with other settings than its unit has"
	f.found(nil, what+": "+p.String()+". ", advice)
	return nil
}

func templateExposed(h *facts, f *finder) error {
	for _, e := range h.Exposed {
		what, advice := e.parts()
		f.found(nil, what, advice)
	}
	return h.Unexamined
}

func programsClosed(h *facts, f *finder) error {
	if h.Closed == nil {
		return nil
	}
	text, err := h.Closed(h)
	if text != "" {
		f.found(nil, text, "")
	}
	return err
}

// otherAgents reports agents whose version changes with the links, and whose databases have no backup.
func otherAgents(h *facts, f *finder) error {
	others, err := h.OtherAgents()
	for _, o := range others {
		f.found(nil, fmt.Sprintf("%s runs an agent by the linked program (PID %d): its next start is on the version that is linked then, "+
			"without a backup of its database, and nobody watches it. ", o.Unit, o.PID),
			fmt.Sprintf("do not restart it: have it start a program of its own, in another folder than %s; `systemctl disable --now %s`, "+
				"if nobody needs it", h.Paths().LinkDir, o.Unit))
	}
	return err
}
