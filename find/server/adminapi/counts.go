package adminapi

import (
	"time"
)

// Counts is what the engine counts by now.
type Counts struct {
	// Complete says that hosts have had time to report; while it is false, no group
	// goes on. CompleteAt is when that is over, if all goes on as it does.
	Complete   bool         `json:"complete"`
	CompleteAt time.Time    `json:"complete_at,omitzero"`
	Hosts      int          `json:"hosts"` // that have joined
	Groups     []GroupCount `json:"groups"`
	// Omitted counts the hosts that are in no group's count, by reason; Unmatched
	// those whose group no schedule has, by group.
	Omitted   map[string]int `json:"omitted,omitempty"`
	Unmatched map[string]int `json:"unmatched,omitempty"`
	// Versions counts the hosts that are in no reason of Omitted by what they run, whatever their group, and whether or
	// not there is a rollout.
	Versions map[string]int `json:"versions,omitempty"`
}

// GroupCount is what the hosts of one group say; see rollout.GroupCounts.
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

// Problem is a host that something is wrong with, as an example.
type Problem struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname,omitempty"`
	Error    string `json:"error"`
}

// Asked is who asked find in the last hour. Anybody can ask, and say that it is
// anybody: these numbers are unconfirmed, and no rollout depends on them.
type Asked struct {
	Unconfirmed bool         `json:"unconfirmed"` // always true
	Since       time.Time    `json:"since"`       // at most an hour ago
	Questions   int64        `json:"questions"`
	Groups      []AskedGroup `json:"groups"`
	// Unknown are groups that no schedule has, by the number of questions.
	Unknown map[string]int64 `json:"unknown_groups,omitempty"`
}

// AskedGroup is who asked for one group.
type AskedGroup struct {
	Group     string `json:"group"` // empty: hosts that named none
	Questions int64  `json:"questions"`
	// Hosts is about how many different hosts there were, as far as they said host=.
	Hosts int `json:"hosts"`
	// Versions counts the answers by the version that was told.
	Versions map[string]int64 `json:"versions,omitempty"`
}
