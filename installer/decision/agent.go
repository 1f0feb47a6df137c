package decision

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
	"teleport-update/systemd"
)

const (
	AgentUnstable     Type = "agent_unstable"
	AgentDown         Type = "agent_down"
	VersionBroken     Type = "version_broken"
	LinksBroken       Type = "links_broken"
	UnitOverruled     Type = "unit_overruled"
	AgentOtherVersion Type = "agent_other_version"
	BelowMinimum      Type = "below_minimum"
)

// agentFaults are about the program that runs, and the program that the next start would run.
func agentFaults() []Check {
	return []Check{
		{AgentUnstable, Fault, Unstable, "agent", "the agent crashes again and again after its version was proven", settled | active,
			agentUnstable},
		{AgentDown, Fault, NeedsAttention, "agent", "the agent should run and does not", quiet | active, agentDown},
		{VersionBroken, Fault, NeedsAttention, "active version", "the active version is not whole on disk, or its program cannot be executed",
			settled | active, versionBroken},
		{LinksBroken, Fault, NeedsAttention, "links and units", "a link or the agent's unit file is missing, or is not the active version's",
			settled | active, linksBroken},
		{UnitOverruled, Fault, NeedsAttention, "agent's unit", "systemd has loaded another unit for the agent, or takes one at the " +
			"next boot, or has an older text of it, or could not start the agent again by the unit that it has",
			settled | active | partly, unitOverruled},
		{AgentOtherVersion, Fault, NeedsAttention, "agent", "the agent runs another version than the linked one", settled | active,
			agentOtherVersion},
		{BelowMinimum, Fault, NeedsAttention, "policy", "the active version is below the policy's minimum, withdrawn, or not the " +
			"tarball that the policy lists; it stays until the cluster names one that is allowed", active, belowMinimum},
	}
}

func agentUnstable(h *facts, f *finder) error {
	if h.blind != nil {
		return h.blind
	}
	u := h.Ticks().Unstable
	if u == nil || u.Release != h.c.Active() || h.agent.State == state.AgentUnknown {
		return nil
	}
	advice := h.backTo()
	if why := h.Policy.Back; why != "" {
		advice = LookAtJournal + "; the timer does not go back: " + why
	}
	what := fmt.Sprintf("the agent of version %s crashes again and again (found by %d %s of the timer)", u.Short(), u.Count,
		Plural(u.Count, "run", "runs"))
	f.found(&u.Since, what+": ", advice)
	return nil
}

// crashing reports whether another check reports the agent.
func (h *facts) crashing() bool {
	u := h.Ticks().Unstable
	return u != nil && u.Release == h.c.Active()
}

// RestartsOfALoop is how many restarts make a loop: one or two are a network that came late.
const RestartsOfALoop = 3

// loopsUncounted reports whether the agent may be between two crashes, on a host on which no run of the timer tells a loop from restarts of
// another month.
func (h *facts) loopsUncounted() bool {
	a := h.agent
	if a.NRestarts < RestartsOfALoop || a.Since.IsZero() || h.Now().Sub(a.Since) >= time.Minute {
		return false
	}
	own, err := h.Own(h)
	return !h.c.Spec.Enabled || err == nil && own.Timer.LoadState != "" && own.Timer.ActiveState != "active"
}

func agentDown(h *facts, f *finder) error {
	if h.blind != nil {
		return h.blind
	}
	a := h.agent
	enabled := a.UnitFileState == "enabled"
	open, err := h.Transaction()
	switch {
	case err != nil:
		h.downInBetween(f, enabled && a.LoadState != "masked", "the journal of a transaction cannot be read, which is put right first")
	case open != nil:
		h.downInBetween(f, open.Agent.State.Wanted(), "a transaction is open, which is closed first")
	case h.crashing():
	case a.State == state.AgentRunning && h.loopsUncounted():
		f.found(nonZero(a.Since), fmt.Sprintf("systemd has restarted the agent %d times since somebody started it, the last time less than "+
			"a minute ago, and no run of the timer counts that: ", a.NRestarts), h.backTo())
	case a.State == state.AgentRunning:
		return h.stepOf(f, true)
	case a.State == state.AgentFailing:
		f.found(nonZero(a.Since), fmt.Sprintf("the agent of version %s fails (%s, %s): ", h.c.Active().Short(), orUnknown(a.ActiveState),
			orUnknown(a.SubState)), h.again()+h.backTo())
	case a.State == state.AgentStopped && enabled && a.LoadState != "masked":
		f.found(nonZero(a.Since), "the agent is enabled at boot and does not run: ", h.advise("`systemctl start teleport`"+cmp.Or(h.untried(),
			" starts it")))
	}
	return nil
}

// downInBetween is agentDown after an updater was cut off, as when a version was undone and the version before does not come up. wanted
// says whether somebody wants the agent to run, cause what the updater left.
func (h *facts) downInBetween(f *finder, wanted bool, cause string) {
	const closes = "`teleport-update update` repairs that, or says what is in the way"
	a := h.agent
	how := fmt.Sprintf("(%s, %s)", orUnknown(a.ActiveState), orUnknown(a.SubState))
	switch {
	case !wanted:
	case a.State == state.AgentFailing:
		f.found(nonZero(a.Since), fmt.Sprintf("the agent fails %s while %s: ", how, cause), closes+"; "+LookAtJournal)
	case a.State == state.AgentStopped:
		f.found(nonZero(a.Since), fmt.Sprintf("the agent does not run %s while %s: ", how, cause), closes)
	}
}

func versionBroken(h *facts, f *finder) error {
	again := h.command("fetches it again")
	v, err := h.Version()
	switch {
	case err != nil:
		return err
	case !v.Whole:
		f.found(nil, fmt.Sprintf("version %s is not whole on disk: ", h.c.Active().Short()), again)
	case v.Unusable != nil:
		f.foundError("the agent could not be started: ", v.Unusable)
	case h.Deep, v.Changed: // else a run of the timer has repaired it, or says that it cannot
		return versionDamaged(h, f, again)
	}
	return nil
}

func versionDamaged(h *facts, f *finder, again string) error {
	damage, err := h.Damage(h)
	if err != nil || damage == nil {
		return err
	}
	why, err := h.Pair(h)
	switch {
	case err != nil: // nobody knows what helps
		f.found(nil, damage.Error(), "")
		return err
	case why != nil:
		f.foundError(damage.Error()+", and a repair leaves it: ", why)
	default:
		f.found(nil, damage.Error()+": ", again)
	}
	return nil
}

func linksBroken(h *facts, f *finder) error {
	problems, err := h.Links()
	if blocked := host.InTheWay(err); blocked != "" {
		f.found(nil, strings.TrimSuffix(blocked, "move it away"), "move it away, then "+h.command("puts back what belongs there"))
		return nil
	}
	if err != nil || len(problems) == 0 {
		return err
	}
	why, err := h.Pair(h)
	var led error // of the unit alone
	if why == nil && err == nil {
		led, err = h.Led(h)
	}
	for _, p := range problems {
		if led != nil && strings.HasPrefix(p, h.Paths().Unit()+" ") {
			f.foundError(p+", and a repair leaves it: ", led)
			continue
		}
		switch {
		case err != nil: // nobody knows what helps
			f.found(nil, p, "")
		case why != nil:
			f.foundError(p+", and a repair leaves it: ", why)
		default:
			f.found(nil, p+": ", h.command("puts it back"))
		}
	}
	return err
}

func unitOverruled(h *facts, f *finder) error {
	if h.blind != nil {
		return h.blind
	}
	unit := h.Paths().AgentUnit()
	above, masks := h.Outranking(h.agent.Unit)
	switch a := h.agent; {
	case a.State == state.AgentUnknown:
		return nil // there is no systemd
	case a.LoadState == "masked":
		if a.Serves() { // else another check reports a person's wish
			f.found(nil, "the agent runs, and its next start would fail: "+h.masked(), "")
		}
		return nil
	case a.LoadState != "loaded":
		f.found(nil, fmt.Sprintf("systemd has no unit %s that it can start (%s): the next start fails; ", unit, orUnknown(a.LoadState)),
			"`systemctl daemon-reload` has it look again in "+h.Paths().UnitDir)
		return nil
	case above != "":
		f.found(nil, outranked(a.Unit, above, masks), h.leaves(above, masks))
	case a.NeedDaemonReload, h.Deep && h.Unread(a.Unit):
		f.found(nil, fmt.Sprintf("systemd has an older text of %s than the one on disk: ", unit),
			"`systemctl daemon-reload` has it read the files")
	}
	why, err := h.Starts(h)
	if why == nil && err == nil && h.Deep && h.agent.State.Wanted() {
		why, err = h.Needs(h)
	}
	problems, _ := h.Links()
	if why != nil && (!h.IsOurs(h.agent.FragmentPath) || len(problems) == 0) { // else it follows from the links
		h.overruled(f, why)
	}
	return err
}

// outranked names the file that systemd takes instead of a unit's file once it reads the units again.
func outranked(u systemd.Unit, by string, masks bool) string {
	from := "the next boot"
	if strings.HasPrefix(by, "/run/") {
		from = "the next `systemctl daemon-reload`" // after a boot it is gone
	}
	if masks {
		return fmt.Sprintf("from %s on, %s is masked by %s, and not started: ", from, u.Name, by)
	}
	return fmt.Sprintf("from %s on, systemd takes %s instead of %s: ", from, by, u.FragmentPath)
}

// leaves says how to have systemd load the next unit instead of a file. It is empty if that would not be the updater's unit.
func (h *facts) leaves(file string, masks bool) string {
	if masks {
		return fmt.Sprintf("`rm %s && systemctl daemon-reload`, if the agent is to run", file)
	}
	if !h.AboveOurs(file) {
		return ""
	}
	return fmt.Sprintf("copy what you need of it into a drop-in, then `mv %[1]s %[1]s.old && systemctl daemon-reload`", file)
}

// overruled reports why the loaded unit does not start the active version.
func (h *facts) overruled(f *finder, why error) {
	loaded := h.agent.FragmentPath
	switch {
	case failure.Is[*host.UnresolvedError](why):
		f.foundError("no version is changed while nobody can tell which database is the agent's: ", why)
	case h.AboveOurs(loaded):
		text, _, _ := strings.Cut(why.Error(), ": ")
		f.found(nil, text+": ", h.leaves(loaded, false))
	default:
		f.foundError("", why)
	}
}

func agentOtherVersion(h *facts, f *finder) error {
	a, linked := h.agent, h.c.Active()
	program := a.Process.Exe
	if h.blind != nil || h.crashing() || a.State != state.AgentRunning {
		return nil
	}
	if a.Hidden != nil {
		return a.Hidden
	}
	if program == "" && a.Serves() && a.MainPID == 0 {
		return errors.New("systemd knows no main process of it, and what it executes is not known")
	}
	if program == "" || a.Is(linked) {
		return nil
	}
	since, what := nonZero(a.Since), "version "+a.Runs.Short()
	if a.Runs.Version == "" {
		what = program + ", which is not a kept version"
	}
	lead := "the links lead to"
	if h.c.Edited() {
		lead = h.Paths().Config() + " names" // links may lead to the version that runs
	}
	f.found(since, fmt.Sprintf("the agent runs %s, and %s version %s: ", what, lead, linked.Short()), h.restart(a.Runs))
	return nil
}

func belowMinimum(h *facts, f *finder) error {
	if why := h.Policy.Refused; why != "" {
		f.found(nil, "the active version is one that may not be switched to: "+why, "")
	}
	return nil
}
