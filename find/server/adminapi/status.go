package adminapi

import (
	"time"

	"teleport-update/find/rollout"
)

// Status is the state of the server.
type Status struct {
	// SnapshotAge is how many seconds ago the store last confirmed the answers, and
	// StoreError why.
	SnapshotAge float64   `json:"snapshot_age_seconds"`
	StoreError  string    `json:"store_error,omitempty"`
	LastTick    time.Time `json:"last_tick,omitzero"`
	LastWrite   time.Time `json:"last_write,omitzero"`
	EngineError string    `json:"engine_error,omitempty"`
	// ClockSkew is how many seconds the store's clock is ahead of the server's. It is missing if both are one, or
	// were not compared yet. Beyond ten, in either direction, the server does not move the rollout.
	ClockSkew *float64 `json:"clock_skew_seconds,omitempty"`
	// Waiting says that no group goes on until hosts have had time to report.
	Waiting bool `json:"waiting_for_reports"`
	// Blocked says what keeps the server from moving the rollout, and how old its information is.
	Blocked []string `json:"blocked,omitempty"`
	// Certificate says that the certificate for hosts has run out, or soon will.
	Certificate string `json:"certificate,omitempty"`
	// Webhooks lists the webhooks that miss events.
	Webhooks []string `json:"webhooks,omitempty"`
	// Full lists the limits on made-up data of hosts that are reached, or nearly so, and the consequences.
	Full []string `json:"full,omitempty"`
}

// Overview is the state of the rollout and of the server.
type Overview struct {
	rollout.Overview
	Server Status `json:"server"`
}

// Why is the answer to a host, and why.
type Why struct {
	Answer
	JitterSeconds int `json:"jitter_seconds"`
	rollout.Explanation
}
