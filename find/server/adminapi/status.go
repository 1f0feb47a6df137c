package adminapi

import (
	"time"

	"teleport-update/find/rollout"
)

// Status is how the server does.
type Status struct {
	// SnapshotAge is for how many seconds nobody has known whether hosts are told
	// what the store says, and StoreError why.
	SnapshotAge float64   `json:"snapshot_age_seconds"`
	StoreError  string    `json:"store_error,omitempty"`
	LastTick    time.Time `json:"last_tick,omitzero"`
	LastWrite   time.Time `json:"last_write,omitzero"`
	EngineError string    `json:"engine_error,omitempty"`
	// ClockSkew is how many seconds the store's clock is ahead of the server's; missing if both are one, or nobody has
	// looked. Beyond ten, in either direction, the server does not move the rollout.
	ClockSkew *float64 `json:"clock_skew_seconds,omitempty"`
	// Waiting says that no group goes on until hosts have had time to report.
	Waiting bool `json:"waiting_for_reports"`
	// Blocked says what keeps the server from moving the rollout, and since when what it says is not renewed.
	Blocked []string `json:"blocked,omitempty"`
	// Certificate says that the certificate for hosts has run out, or soon will.
	Certificate string `json:"certificate,omitempty"`
	// Webhooks says which webhooks are not told what they should be.
	Webhooks []string `json:"webhooks,omitempty"`
	// Full says which bounds on what hosts make up are reached, or nearly so, and what follows.
	Full []string `json:"full,omitempty"`
}

// Overview is how the rollout and the server do.
type Overview struct {
	rollout.Overview
	Server Status `json:"server"`
}

// Why is what a host is told, and why.
type Why struct {
	Answer
	JitterSeconds int `json:"jitter_seconds"`
	rollout.Explanation
}

// Brake is a mode that stops updates. It is in force on the server that takes it, whether or not the store can be written.
type Brake struct {
	Mode   rollout.Mode `json:"mode" yaml:"mode"` // suspended or disabled
	Reason string       `json:"reason,omitempty" yaml:"reason"`
}
