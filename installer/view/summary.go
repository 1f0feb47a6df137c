package view

import (
	"encoding/json"
	"time"

	"teleport-update/installer/decision"
)

// Summary is the part of status that everybody on the host may read: it has no address, no path and no text of an error.
type Summary struct {
	SchemaVersion    int              `json:"schema_version"`
	WrittenAt        time.Time        `json:"written_at"`
	State            decision.State   `json:"state"`
	VersionInstalled *string          `json:"agent_version_installed"`
	VersionDesired   *string          `json:"agent_version_desired"`
	VersionRunning   *string          `json:"agent_version_running"`
	AgentState       *string          `json:"agent_active_state"`
	UpdatesEnabled   *bool            `json:"agent_updates_enabled"`
	LastAttempt      *time.Time       `json:"last_attempt_at"`
	LastResult       *string          `json:"last_result"`
	LastSuccess      *time.Time       `json:"last_success_at"`
	JitterUntil      *time.Time       `json:"jitter_until"`
	Conditions       []ShortCondition `json:"conditions"`
}

// ShortCondition is a Condition without its text.
type ShortCondition struct {
	Type  decision.Type `json:"type"`
	Since *time.Time    `json:"since"`
}

// Summary returns the report for everybody, written at a time.
func (r Status) Summary(now time.Time) Summary {
	s := Summary{
		SchemaVersion: StatusSchema, WrittenAt: now, State: r.State, VersionInstalled: r.VersionInstalled, VersionDesired: r.VersionDesired,
		VersionRunning: r.Agent.Version, AgentState: r.Agent.ActiveState,
		LastAttempt: r.UpdateTimeLast, LastResult: r.LastResult, LastSuccess: r.LastSuccess, JitterUntil: r.JitterUntil,
		Conditions: []ShortCondition{},
	}
	if !r.unread {
		s.UpdatesEnabled = &r.UpdatesEnabled
	}
	for _, c := range r.Conditions {
		s.Conditions = append(s.Conditions, ShortCondition{c.Type, c.Since})
	}
	return s
}

// Text returns the content of the file.
func (s Summary) Text() ([]byte, error) {
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}
