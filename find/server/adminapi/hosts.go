package adminapi

import (
	"time"

	"teleport-update/find/rollout"
)

// Hosts is a page of the hosts that report, in the order of their ids.
type Hosts struct {
	Hosts []Host `json:"hosts"`
	// Total is how many hosts match the query, on all pages; 0 with total=false.
	Total int `json:"total"`
	// Next is the parameter after of the next page; empty for none.
	Next string `json:"next,omitempty"`
}

// Host is a host's state by its own authenticated reports.
type Host struct {
	ID        string `json:"id"`
	UpdaterID string `json:"updater_id,omitempty"`
	Hostname  string `json:"hostname,omitempty"`
	Group     string `json:"group,omitempty"` // as the host names it
	Version   string `json:"version,omitempty"`
	Edition   string `json:"edition,omitempty"`
	Arch      string `json:"arch,omitempty"`
	// State is one word for people; see HostState.
	State HostState `json:"state"`
	// Omitted is why no count includes the host, or empty.
	Omitted   string `json:"omitted,omitempty"`
	Pinned    bool   `json:"pinned,omitempty"`
	Disabled  bool   `json:"disabled,omitempty"`
	Unhealthy bool   `json:"unhealthy,omitempty"`
	Cloned    bool   `json:"cloned,omitempty"`
	// BelowMinimum says that the policy of the host's owner refuses its version. Unsigned
	// says that it would if it required signatures.
	BelowMinimum bool `json:"below_minimum,omitempty"`
	Unsigned     bool `json:"unsigned,omitempty"`

	Revoked   bool      `json:"revoked,omitempty"`   // it may join again, and not report before
	FirstSeen time.Time `json:"first_seen,omitzero"` // since the last long pause
	LastSeen  time.Time `json:"last_seen,omitzero"`  // zero: it has joined and never reported
	// Told is when it first said that it shall update to a version, Begun when it said
	// that it begins, Failed its last failure.
	Told   *Event   `json:"told,omitempty"`
	Begun  *Event   `json:"begun,omitempty"`
	Failed *Failure `json:"failed,omitempty"`
	// Token is the join token of the host.
	Token string `json:"token,omitempty"`
	// Order describes the host's own order, if it has one.
	Order string `json:"order,omitempty"`
	// Choices are the orders that the host may get. A list of hosts leaves them out.
	Choices []rollout.Choice `json:"choices,omitempty"`
}

// HostOrder is an order to one host, whatever its group says.
type HostOrder struct {
	Action rollout.HostAction `json:"action" yaml:"action"`
	To     string             `json:"to,omitempty" yaml:"to,omitempty"` // of an update: start or a version; empty for the target
	Until  time.Time          `json:"until,omitzero" yaml:"until,omitempty"`
	Reason string             `json:"reason,omitempty" yaml:"reason,omitempty"`
}

// HostState says in a word how a host does with regard to the rollout.
type HostState string

// The states: the first that holds counts. The version in them is the rollout's target or, in a group that was rolled
// back, the version of the rollback.
const (
	HostRevoked  HostState = "revoked"   // its secret was revoked
	HostCloned   HostState = "cloned"    // several hosts report with its secret
	HostAbsent   HostState = "absent"    // no report for 25 minutes
	HostOnTarget HostState = "on_target" // it runs the version
	HostFailed   HostState = "failed"    // the version has failed on it, and it does not run it
	HostPinned   HostState = "pinned"
	HostDisabled HostState = "disabled"
	HostUpdating HostState = "updating" // it has begun to update to the version
	HostTold     HostState = "told"     // it has said that it shall update to the version, and has not begun
	HostWaiting  HostState = "waiting"  // it has not said that it shall update to the version
)

// HostStates are all of them, in their order.
var HostStates = []HostState{HostRevoked, HostCloned, HostAbsent, HostOnTarget, HostFailed, HostPinned, HostDisabled, HostUpdating,
	HostTold, HostWaiting}

// Event is something that happened on the way to a version.
type Event struct {
	Target string    `json:"target"`
	Time   time.Time `json:"time"` // by the server's clock
}

// Failure is an update that failed or was rolled back.
type Failure struct {
	Event
	Error string `json:"error,omitempty"`
}
