package decision

import (
	"cmp"
	"fmt"
	"strings"

	"teleport-update/installer/host"
	"teleport-update/installer/state"
	"teleport-update/internal/failure"
)

// A try looks for a reason that a start of the agent would fail, or start something else. It returns the reason; empty if nothing speaks
// against the start.
type try func(*facts) string

// Each advice to start or restart the agent is printed only if its tries find nothing. Else the first reason is printed instead.
var (
	// toStart is for a start by the unit that systemd has loaded.
	toStart = []try{
		noOtherAgent, versionRuns, notMasked, isLoaded, mayBeStarted, unitLeadsToVersion, nextStartWorks, needsAreThere, recordsFit,
	}
	// ofHost are the tries for causes that keep each version from starting.
	ofHost = []try{notMasked, isLoaded, unitLeadsToVersion, nextStartWorks, needsAreThere, hasNoLimit}
	// behindMask is for a start once the unit is unmasked: systemd knows nothing about a masked unit.
	behindMask = []try{noOtherAgent, versionRuns, linksLeadToVersion, isConfigured, recordsFit}
	// onceConfigured is for a start once the agent has a configuration. Without one, conditions of the unit may not hold.
	onceConfigured = []try{noOtherAgent, versionRuns, mayBeStarted, unitLeadsToVersion, recordsFit}
)

// against returns the first reason against a start; empty if there is no reason.
func (h *facts) against(tries []try) string {
	for _, t := range tries {
		if why := t(h); why != "" {
			return why
		}
	}
	return ""
}

// keepsFromStarting says why a start of the agent by its unit would fail, or would start
// something else; empty if nothing speaks against it.
func (h *facts) keepsFromStarting() string { return h.against(toStart) }

// advise returns an advice to start the agent, or why that would do harm.
func (h *facts) advise(start string) string {
	if why := h.keepsFromStarting(); why != "" {
		return "do not start it before this is put right: " + why
	}
	return start
}

// adviseRestart is advise for an agent that runs, which a restart stops first.
func (h *facts) adviseRestart(restart string) string {
	if why := cmp.Or(mayBeStopped(h), h.keepsFromStarting()); why != "" {
		return "do not restart it before this is put right: " + why
	}
	return restart
}

// adviseAfter returns an advice to do something first, and then to start the agent.
func (h *facts) adviseAfter(first string, tries []try, start string) string {
	if why := h.against(tries); why != "" {
		return first + ", and do not start it before this is put right: " + why
	}
	return first + ", then " + start
}

// noOtherAgent looks for an agent that another unit started while the agent is down: both may use the same data.
func noOtherAgent(h *facts) string {
	if h.agent.State == state.AgentRunning {
		return ""
	}
	others, _ := h.OtherAgents() // another condition reports the error
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("%s runs an agent (PID %d), and two agents on one data folder damage it: `systemctl disable --now %[1]s`, "+
		"if it uses the same data", others[0].Unit, others[0].PID)
}

func versionRuns(h *facts) string {
	v, err := h.Version()
	switch {
	case err != nil:
		return fmt.Sprintf("the active version could not be looked at: %v", err)
	case !v.Whole:
		return fmt.Sprintf("version %s is not whole on disk", h.c.Active().Short())
	case v.Unusable != nil:
		return v.Unusable.Error()
	}
	return found(h.Damage(h))
}

func notMasked(h *facts) string {
	if h.agent.LoadState == "masked" {
		return h.masked()
	}
	return ""
}

func isLoaded(h *facts) string {
	if h.agent.LoadState != "" && h.agent.LoadState != "loaded" {
		return fmt.Sprintf("systemd has its unit as %s: `systemctl status %s` says why", h.agent.LoadState, h.Paths().AgentUnit())
	}
	return ""
}

func hasNoLimit(h *facts) string { return h.agent.EndingLimit() }

func mayBeStarted(h *facts) string {
	if h.agent.Ties.RefusesStart {
		return "systemd refuses to start its unit when asked (RefuseManualStart=)"
	}
	return ""
}

// mayBeStopped looks for reasons against a stop of the agent. A transaction refuses a stop for the same reasons.
func mayBeStopped(h *facts) string {
	switch ties := h.agent.Ties; {
	case ties.EndsHost != "":
		return fmt.Sprintf("systemd ends the host once the agent is down (%s): `systemctl cat %s` shows where that is set; remove it",
			ties.EndsHost, h.Paths().AgentUnit())
	case ties.RefusesStop:
		return "systemd refuses to stop its unit when asked (RefuseManualStop=)"
	}
	return ""
}

func unitLeadsToVersion(h *facts) string {
	why, err := h.Starts(h)
	if failure.Is[*host.UnresolvedError](why) {
		return "" // systemd resolves it when it starts the agent
	}
	return found(why, err)
}

func nextStartWorks(h *facts) string { return found(h.NextStart(h)) }

// needsAreThere asks systemd for each unit that the agent's unit needs, so runs of the timer do without it.
func needsAreThere(h *facts) string {
	if !h.Deep {
		return ""
	}
	return found(h.Needs(h))
}

// linksLeadToVersion looks at the files that systemd reads once the unit is not masked any more.
func linksLeadToVersion(h *facts) string {
	problems, err := h.Links()
	if err != nil {
		return cmp.Or(host.InTheWay(err), fmt.Sprintf("links and unit could not be looked at: %v", err))
	}
	return strings.Join(problems, "; ")
}

func isConfigured(h *facts) string {
	configured, err := h.Configured()
	switch {
	case err != nil:
		return fmt.Sprintf("its configuration could not be looked at: %v", err)
	case !configured:
		return "it has no configuration"
	}
	_, err = h.AgentSettings()
	return found(nil, err)
}

// recordsFit does not speak against a start if the database could not be looked at: then nothing is known about it, and the check of the
// records reports that.
func recordsFit(h *facts) string {
	why, _ := h.Fits(h)
	return found(why, nil)
}

// found returns the reason that keeps the agent from starting, or why that cannot be told.
func found(why, err error) string {
	if err != nil {
		return err.Error()
	}
	if why != nil {
		return why.Error()
	}
	return ""
}

// adviseRestartOf returns an advice to restart units other than the agent's. It names a unit that would not start again, with the reason,
// and advises not to restart it.
func (h *facts) adviseRestartOf(units []string, restart string) string {
	var starts, stay []string
	for _, unit := range units {
		why, err := h.StartsAgain(h, unit)
		if err != nil {
			why = fmt.Errorf("it could not be looked at: %w", err)
		}
		if why != nil {
			stay = append(stay, fmt.Sprintf("do not restart %s before this is put right: %v", unit, why))
		} else {
			starts = append(starts, unit)
		}
	}
	if len(starts) > 0 {
		stay = append([]string{fmt.Sprintf(restart, strings.Join(starts, " "))}, stay...)
	}
	return strings.Join(stay, "; ")
}
