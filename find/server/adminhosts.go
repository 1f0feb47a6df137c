package server

import "time"

// AdminHosts is a page of the hosts that report, in the order of their ids.
type AdminHosts struct {
	Hosts []AdminHost `json:"hosts"`
	// Total is how many hosts the query has found, on all pages.
	Total int `json:"total"`
	// Next is the parameter after of the next page; empty for none.
	Next string `json:"next,omitempty"`
}

// AdminHost is what is known of one host, from its own authenticated reports.
type AdminHost struct {
	ID        string `json:"id"`
	UpdaterID string `json:"updater_id,omitempty"`
	Hostname  string `json:"hostname,omitempty"`
	Group     string `json:"group,omitempty"` // as the host names it
	Version   string `json:"version,omitempty"`
	Edition   string `json:"edition,omitempty"`
	Arch      string `json:"arch,omitempty"`
	// State is one word for people; see HostState.
	State HostState `json:"state"`
	// Omitted is why the host is in no count; empty for one that is.
	Omitted   string    `json:"omitted,omitempty"`
	Pinned    bool      `json:"pinned,omitempty"`
	Disabled  bool      `json:"disabled,omitempty"`
	Unhealthy bool      `json:"unhealthy,omitempty"`
	Cloned    bool      `json:"cloned,omitempty"`
	Revoked   bool      `json:"revoked,omitempty"`   // it may join again, and not report before
	FirstSeen time.Time `json:"first_seen,omitzero"` // since the last long pause
	LastSeen  time.Time `json:"last_seen,omitzero"`  // zero: it has joined and never reported
	// Told is when it first said that it was told to update to a version, Begun when
	// it said that it begins, Failed its last failure.
	Told   *AdminEvent   `json:"told,omitempty"`
	Begun  *AdminEvent   `json:"begun,omitempty"`
	Failed *AdminFailure `json:"failed,omitempty"`
	// Token is the join token that the host has joined by.
	Token string `json:"token,omitempty"`
}

// HostState says in a word how a host does with regard to the rollout.
type HostState string

// The states, of which the first that holds is told.
const (
	HostRevoked  HostState = "revoked"   // its secret was revoked
	HostCloned   HostState = "cloned"    // several hosts report with its secret
	HostAbsent   HostState = "absent"    // no report for 25 minutes
	HostOnTarget HostState = "on_target" // it runs the target
	HostFailed   HostState = "failed"    // its last update to the target failed or was rolled back
	HostPinned   HostState = "pinned"
	HostDisabled HostState = "disabled"
	HostUpdating HostState = "updating" // it has begun to update to the target
	HostTold     HostState = "told"     // it has said that it was told to update to the target
	HostWaiting  HostState = "waiting"  // none of these
)

var hostStates = []HostState{HostRevoked, HostCloned, HostAbsent, HostOnTarget, HostFailed, HostPinned, HostDisabled, HostUpdating, HostTold, HostWaiting}

// AdminEvent is something that happened on the way to a version.
type AdminEvent struct {
	Target string    `json:"target"`
	Time   time.Time `json:"time"` // by the server's clock
}

// AdminFailure is an update that failed or was rolled back.
type AdminFailure struct {
	AdminEvent
	Error string `json:"error,omitempty"`
}

// AdminTokens are the join tokens, in the order of their names.
type AdminTokens struct {
	Tokens []AdminToken `json:"tokens"`
}

// AdminToken is a join token, without the token itself.
type AdminToken struct {
	Name    string    `json:"name"`
	Groups  []string  `json:"groups,omitempty"` // that it is for; none: all
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Created time.Time `json:"created"`          //
	By      string    `json:"created_by"`       // such as "uid 0"
	Hosts   int       `json:"hosts"`            // that joined by it and are known
	// MaxHosts is how many hosts may have joined by it; 0: as many as there is room for, of a token of before.
	MaxHosts int    `json:"max_hosts,omitempty"`
	Token    string `json:"token,omitempty"` // in the answer to POST alone: it is kept nowhere
}

// AdminTokenRequest asks for a new join token.
type AdminTokenRequest struct {
	Name      string   `json:"name" yaml:"name"`
	Groups    []string `json:"groups,omitempty" yaml:"groups"`
	ExpiresIn string   `json:"expires_in,omitempty" yaml:"expires_in"` // a duration such as 24h; empty: never
	MaxHosts  int      `json:"max_hosts,omitempty" yaml:"max_hosts"`   // that may have joined by it; 0: 100,000
}

// AdminHistory is who changed what, the newest first.
type AdminHistory struct {
	Records []AdminRecord `json:"records"`
}

// AdminRecord is a change of one resource, host or token.
type AdminRecord struct {
	Time time.Time `json:"time"`
	Who  string    `json:"who"`           // such as "uid 0", or "engine"
	What string    `json:"what"`          // the command, or the steps of the engine
	Why  string    `json:"why,omitempty"` // the reason that was given
	Key  string    `json:"key"`           // what was changed, such as autoupdate_version
	From int64     `json:"from_revision"` // 0: it was not there
	To   int64     `json:"to_revision"`   // 0: it was removed
}

// AdminCounts is what the engine counts by now.
type AdminCounts struct {
	// Complete says that hosts have had time to report; while it is false, no group
	// goes on. CompleteAt is when that is over, if all goes on as it does.
	Complete   bool              `json:"complete"`
	CompleteAt time.Time         `json:"complete_at,omitzero"`
	Hosts      int               `json:"hosts"` // that have joined
	Groups     []AdminGroupCount `json:"groups"`
	// Omitted counts the hosts that are in no group's count, by reason; Unmatched
	// those whose group no schedule has, by group.
	Omitted   map[string]int `json:"omitted,omitempty"`
	Unmatched map[string]int `json:"unmatched,omitempty"`
}

// AdminGroupCount is what the hosts of one group say; see rollout.GroupCounts.
type AdminGroupCount struct {
	Group     string         `json:"group"`
	Present   int            `json:"present"`
	UpToDate  int            `json:"up_to_date"`
	Failed    int            `json:"failed"`
	TimedOut  int            `json:"timed_out"`
	Unhealthy int            `json:"unhealthy"`
	Missing   int            `json:"missing"`
	InFlight  int            `json:"in_flight"`
	Versions  map[string]int `json:"versions,omitempty"`
	Problems  []AdminProblem `json:"problems,omitempty"`
}

// AdminProblem is a host that something is wrong with, as an example.
type AdminProblem struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname,omitempty"`
	Error    string `json:"error"`
}

// AdminAsked is who asked find in the last hour. Anybody can ask, and say that it is
// anybody: these numbers are unconfirmed, and no rollout depends on them.
type AdminAsked struct {
	Unconfirmed bool              `json:"unconfirmed"` // always true
	Since       time.Time         `json:"since"`       // at most an hour ago
	Questions   int64             `json:"questions"`
	Groups      []AdminAskedGroup `json:"groups"`
	// Unknown are groups that no schedule has, by the number of questions.
	Unknown map[string]int64 `json:"unknown_groups,omitempty"`
}

// AdminAskedGroup is who asked for one group.
type AdminAskedGroup struct {
	Group     string `json:"group"` // empty: hosts that named none
	Questions int64  `json:"questions"`
	// Hosts is about how many different hosts there were, as far as they said host=.
	Hosts int `json:"hosts"`
	// Versions counts the answers by the version that was told.
	Versions map[string]int64 `json:"versions,omitempty"`
}
