// Package adminapi is what goes over the admin API of the find server, in JSON, and the roles of those who use
// it. It is all that a program on the other side needs to know.
package adminapi

import (
	"encoding/json"
	"time"

	"teleport-update/find/rollout"
)

// Result is the answer to a change. Answers that are errors hold an
// Error.
type Result struct {
	Resources []Resource `json:"resources"`
	// Answer is for hosts of no group, Groups for those of groups.
	Answer   Answer   `json:"answer"`
	Groups   []Group  `json:"groups,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Resource is what became of one resource.
type Resource struct {
	Kind     string          `json:"kind"`
	Change   Change          `json:"change"`
	Resource json.RawMessage `json:"resource"`
}

// Answer is what hosts are told.
type Answer struct {
	AgentVersion string `json:"agent_version"`
	Edition      string `json:"edition"`
	AutoUpdate   bool   `json:"agent_autoupdate"`
}

// Group is what the hosts of a group are told, and when their turn comes.
type Group struct {
	Group string        `json:"group"`
	State rollout.State `json:"state"`
	Answer
	// Starts is when the group starts at the earliest, or has started; missing where
	// Waits says what has to happen first.
	Starts time.Time `json:"starts,omitzero"`
	Waits  string    `json:"waits,omitempty"`
}

// Resources are all resources, those that people write first.
type Resources struct {
	Resources []json.RawMessage `json:"resources"`
}

// Change says what became of a resource that was applied.
type Change string

// The changes.
const (
	Created   Change = "created"
	Changed   Change = "changed"
	Unchanged Change = "unchanged"
)

// Removed is what becomes of a resource that is taken out of the store.
const Removed Change = "removed"
