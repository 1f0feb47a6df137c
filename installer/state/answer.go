package state

import (
	"encoding/json"
	"time"

	"teleport-update/internal/version"
)

// LastAnswer is find.json: what find said last, and to whom. It is a cache for
// status, so it is neither synced nor trusted for any decision.
type LastAnswer struct {
	Time  time.Time `json:"time"`
	Proxy string    `json:"proxy"`
	Group string    `json:"group,omitempty"`
	version.Release
	AutoUpdate bool `json:"auto_update"`
	Jitter     int  `json:"jitter_seconds"`
	// GroupUnknown: find has groups, and not this one.
	GroupUnknown bool `json:"group_unknown,omitempty"`
	// RetryFailed is when somebody had hosts try the version again.
	RetryFailed time.Time `json:"retry_failed,omitzero"`
}

// Save writes the answer. A rename keeps a reader from seeing half of it; nothing
// is lost when it does not survive a power cut, and ticks should not cost a sync.
func (a LastAnswer) Save(path string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return replace(path, append(data, '\n'), 0o600)
}

// LoadAnswer returns the last answer of find for a proxy and a group, nil if it is
// not known.
func LoadAnswer(path, proxy, group string) *LastAnswer {
	var a LastAnswer
	if !load(path, &a) || a.Proxy != proxy || a.Group != group {
		return nil
	}
	return &a
}
