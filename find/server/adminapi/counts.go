package adminapi

import (
	"time"
)

// Counts is the engine's present count of hosts.
type Counts struct {
	// Complete says that hosts have had time to report; while it is false, no group
	// goes on. CompleteAt is when it will be true, as far as the server knows.
	Complete   bool         `json:"complete"`
	CompleteAt time.Time    `json:"complete_at,omitzero"`
	Hosts      int          `json:"hosts"` // that have joined
	Groups     []GroupCount `json:"groups"`
	// Omitted counts the hosts in no group's count, by reason. Unmatched counts hosts
	// by their group if no schedule has it.
	Omitted   map[string]int `json:"omitted,omitempty"`
	Unmatched map[string]int `json:"unmatched,omitempty"`
	// Versions counts the hosts that are not in Omitted by their version, whatever their group, with or without a
	// rollout.
	Versions map[string]int `json:"versions,omitempty"`
}

// GroupCount is the count of hosts in one group; see rollout.GroupCounts.
type GroupCount struct {
	Group     string         `json:"group"`
	Present   int            `json:"present"`
	UpToDate  int            `json:"up_to_date"`
	Failed    int            `json:"failed"`
	TimedOut  int            `json:"timed_out"`
	Unhealthy int            `json:"unhealthy"`
	Missing   int            `json:"missing"`
	InFlight  int            `json:"in_flight"`
	Updating  int            `json:"updating"`
	Versions  map[string]int `json:"versions,omitempty"`
	Problems  []Problem      `json:"problems,omitempty"`
}

// Problem is an example of a host with a problem.
type Problem struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname,omitempty"`
	Error    string `json:"error"`
}

// Asked counts requests to find in the last hour. Anybody can ask, in any name: these
// numbers are unconfirmed, and no rollout depends on them.
type Asked struct {
	Unconfirmed bool         `json:"unconfirmed"` // always true
	Since       time.Time    `json:"since"`       // at most an hour ago
	Questions   int64        `json:"questions"`
	Groups      []AskedGroup `json:"groups"`
	// Unknown are groups that no schedule has, by the number of questions.
	Unknown map[string]int64 `json:"unknown_groups,omitempty"`
}

// AskedGroup counts requests for one group.
type AskedGroup struct {
	Group     string `json:"group"` // empty: requests that named none
	Questions int64  `json:"questions"`
	// Hosts is about how many different hosts there were, by the parameter host.
	Hosts int `json:"hosts"`
	// Versions counts the answers by their version.
	Versions map[string]int64 `json:"versions,omitempty"`
}
