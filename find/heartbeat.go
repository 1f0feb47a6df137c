package find

import "time"

// Hosts with a join token send these to a find server: a JSON object each, with exactly these
// field names. A field that the server does not know is an error, so servers are upgraded before
// hosts.
const (
	// JoinPath takes a Join. Its header Authorization is "Bearer TOKEN", with a join
	// token that "teleport-find token add" has printed.
	JoinPath = "/v1/agents/join"
	// HeartbeatPath takes a Heartbeat. Its header Authorization is "Bearer SECRET",
	// with the secret of the host itself.
	HeartbeatPath = "/v1/agents/heartbeat"
	// MaxHeartbeat is the size of the largest body that either takes, in bytes.
	MaxHeartbeat = 16 << 10
)

// Join introduces a host. The answer is also 200 if the host has joined with the same secret
// before: the answer may have been lost. Otherwise a known host is refused with 409, until
// somebody revokes its secret.
type Join struct {
	// HostID is the UUID of the agent's host_uuid.
	HostID string `json:"host_id"`
	// SecretHash is the SHA-256 of the secret that the host has made, in hex. The
	// secret itself is sent with reports only, and never kept by the server.
	SecretHash string `json:"secret_sha256"`
	// Group is the group that the host names to find; a token may be for some groups only.
	Group    string `json:"group,omitempty"`
	Hostname string `json:"hostname,omitempty"`
}

// Heartbeat is one report of a host: after each poll, and when a transaction begins
// and ends.
type Heartbeat struct {
	HostID string `json:"host_id"`
	// Sequence grows with each report of a host. The server refuses a repeated or older one: 409, and
	// the answer is a HeartbeatError with the last one that it took.
	Sequence uint32 `json:"sequence"`
	// BootID is the id of the running kernel's boot: if two ids take turns, there are two hosts with
	// one secret.
	BootID    string `json:"boot_id,omitempty"`
	UpdaterID string `json:"updater_id,omitempty"` // a UUID
	Hostname  string `json:"hostname,omitempty"`
	Group     string `json:"group,omitempty"`
	Version   string `json:"version,omitempty"` // of the agent; empty for none
	Edition   string `json:"edition,omitempty"`
	Arch      string `json:"arch,omitempty"`
	Pinned    bool   `json:"pinned,omitempty"` // or held back by a person's rollback
	Disabled  bool   `json:"disabled,omitempty"`
	Unhealthy bool   `json:"unhealthy,omitempty"` // the agent is down
	// BelowMinimum reports that the policy of the host's owner would refuse a change to the version.
	BelowMinimum bool `json:"below_minimum,omitempty"`
	// Unsigned reports that the host's policy would refuse the version if it required signatures.
	// Only hosts that look at signatures report it.
	Unsigned bool `json:"unsigned,omitempty"`
	// Told is the version of find's last answer, if that answer said to update now.
	Told string `json:"told,omitempty"`
	// Outcome is the outcome of the last update, which may be long ago.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Outcome is the result of an update. After a rollback, the host's version is the Version of the
// same Heartbeat.
type Outcome struct {
	Target string `json:"target"`
	// State is "started", "succeeded", "failed", "rolled_back" or "interrupted".
	State string    `json:"state"`
	Error string    `json:"error,omitempty"`
	Time  time.Time `json:"time"` // by the host's clock
	// BacksOffUntil is the time of the next attempt at the target, if it failed on the host.
	BacksOffUntil time.Time `json:"backs_off_until,omitzero"`
}

// HeartbeatError is the body of every answer but 200.
type HeartbeatError struct {
	Error string `json:"error"`
	// Sequence, with 409, is the last one that the server took from the host.
	Sequence uint32 `json:"sequence,omitempty"`
}
