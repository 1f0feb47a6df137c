package adminapi

import (
	"time"

	"teleport-update/find/rollout"
)

// Hooks are the webhooks, in the order of their names.
type Hooks struct {
	Hooks []Hook `json:"webhooks"`
}

// Hook is the state of a webhook at the server that answers.
type Hook struct {
	Name string `json:"name"`
	// Address is the scheme and host of its URL, or the name of the URL's file.
	Address     string               `json:"address"`
	Kinds       []rollout.NoticeKind `json:"kinds"`
	Waiting     int                  `json:"waiting"` // events
	Delivered   time.Time            `json:"last_delivered,omitzero"`
	Failing     time.Time            `json:"failing_since,omitzero"`
	Error       string               `json:"error,omitempty"`
	Next        time.Time            `json:"next_attempt,omitzero"`
	GivenUp     int                  `json:"given_up,omitempty"`
	LastGivenUp time.Time            `json:"last_given_up,omitzero"`
}
