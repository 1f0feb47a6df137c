package view

import (
	"fmt"
	"strings"
	"time"

	"teleport-update/installer/decision"
	"teleport-update/installer/state"
	"teleport-update/installer/survey"
)

// AgentReport describes the agent itself, as systemd and the kernel know it. All fields are null if no systemd runs; if systemd does not
// answer, Error says so.
type AgentReport struct {
	ActiveState   *string    `json:"active_state"`
	SubState      *string    `json:"sub_state"`
	PID           *int       `json:"pid"`        // of the process that serves
	Version       *string    `json:"version"`    // that this process executes, even if another is linked
	Edition       *string    `json:"edition"`    // null if its tree is gone
	Executable    *string    `json:"executable"` // as the kernel names it
	Since         *time.Time `json:"since"`      // the unit is active, or in the state it is in
	Restarts      *int       `json:"restarts"`   // by systemd, since somebody started the unit
	EnabledAtBoot *bool      `json:"enabled_at_boot"`
	Error         *string    `json:"error"`
}

// AgentOf returns the report on an agent, or on the error of the look at it.
func AgentOf(a survey.Agent, blind error) AgentReport {
	if blind != nil {
		return AgentReport{Error: new(blind.Error())}
	}
	if a.State == state.AgentUnknown {
		return AgentReport{}
	}
	r := AgentReport{
		ActiveState: Known(a.ActiveState), SubState: Known(a.SubState), Restarts: new(int(a.NRestarts)),
		EnabledAtBoot: enabledAtBoot(a.UnitFileState), Since: Known(a.Since.Truncate(time.Second)),
	}
	if a.Hidden != nil {
		r.PID, r.Error = Known(int(a.MainPID)), new(a.Hidden.Error())
	}
	if a.Process.PID != 0 {
		r.PID, r.Executable = new(a.Process.PID), Known(a.Process.Exe)
		r.Version, r.Edition = Known(a.Runs.Version), Known(string(a.Runs.Edition))
	}
	return r
}

// enabledAtBoot returns nil if the unit does not say.
func enabledAtBoot(unitFileState string) *bool {
	switch unitFileState {
	case "enabled", "disabled", "masked":
		return new(unitFileState == "enabled")
	}
	return nil
}

// Text returns the agent in one line, for a person.
func (r AgentReport) Text(now time.Time) string {
	switch {
	case r.ActiveState == nil && r.Error != nil:
		return "unknown: " + *r.Error
	case r.ActiveState == nil:
		return "unknown: systemd is not running"
	}
	parts := []string{fmt.Sprintf("%s (%s)", *r.ActiveState, textOr(r.SubState, "?"))}
	switch {
	case r.PID != nil && r.Error != nil:
		parts = append(parts, fmt.Sprintf("PID %d, which cannot be looked at: %s", *r.PID, *r.Error))
	case r.PID != nil:
		parts = append(parts, "runs version "+textOr(r.Version, "unknown, "+textOr(r.Executable, "?")), fmt.Sprintf("PID %d", *r.PID))
	}
	if r.Since != nil {
		parts = append(parts, "since "+At(*r.Since, now))
	}
	if r.Restarts != nil && *r.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("restarted %d %s by systemd", *r.Restarts, decision.Plural(*r.Restarts, "time", "times")))
	}
	if r.EnabledAtBoot != nil {
		parts = append(parts, map[bool]string{true: "enabled at boot", false: "not enabled at boot"}[*r.EnabledAtBoot])
	}
	return strings.Join(parts, ", ")
}
