package adminapi

import (
	"teleport-update/find/rollout"
)

// Order is a person's order for the rollout.
type Order struct {
	Verb   rollout.Verb `json:"verb" yaml:"verb"`
	Groups []string     `json:"groups,omitempty" yaml:"groups,omitempty"`
	Force  bool         `json:"force,omitempty" yaml:"force,omitempty"`
	// To is the goal of a rollback: start (also if it is empty), previous or a version.
	To     string `json:"to,omitempty" yaml:"to,omitempty"`
	Reason string `json:"reason,omitempty" yaml:"reason,omitempty"` // kept in the history
}

// OrderResult is what an order did, or in a dry run would do.
type OrderResult struct {
	Steps []Step `json:"steps"`
	// Overview is the state of the rollout after the order.
	Overview rollout.Overview `json:"overview"`
}

// Step is one change of one group or, if Group is empty, of the whole rollout.
type Step struct {
	Group   string         `json:"group,omitempty"`
	From    rollout.State  `json:"from,omitempty"`
	To      rollout.State  `json:"to"`
	Halted  bool           `json:"halted,omitempty"`
	Reason  rollout.Reason `json:"reason"`
	Message string         `json:"message,omitempty"`
}
