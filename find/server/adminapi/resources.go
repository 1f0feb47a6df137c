// Package adminapi has the messages of the find server's admin API, in JSON, and the roles of its users. A
// program on the other side needs nothing else.
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
	// Answer is for hosts of no group, Groups has the answers for hosts of groups.
	Answer   Answer   `json:"answer"`
	Groups   []Group  `json:"groups,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Resource is the result for one resource.
type Resource struct {
	Kind     string          `json:"kind"`
	Change   Change          `json:"change"`
	Resource json.RawMessage `json:"resource"`
}

// Answer is the answer to hosts.
type Answer struct {
	AgentVersion string `json:"agent_version"`
	Edition      string `json:"edition"`
	AutoUpdate   bool   `json:"agent_autoupdate"`
}

// Group is the answer to the hosts of a group, and when their turn comes.
type Group struct {
	Group string        `json:"group"`
	State rollout.State `json:"state"`
	Answer
	// Starts is when the group starts at the earliest, or has started. It is missing if
	// the group waits for something that Waits names.
	Starts time.Time `json:"starts,omitzero"`
	Waits  string    `json:"waits,omitempty"`
}

// Resources are all resources, first the ones that people write.
type Resources struct {
	Resources []json.RawMessage `json:"resources"`
}

// Change is what happened to an applied resource.
type Change string

// The changes.
const (
	Created   Change = "created"
	Changed   Change = "changed"
	Unchanged Change = "unchanged"
)

// Removed is for a resource that is taken out of the store.
const Removed Change = "removed"
