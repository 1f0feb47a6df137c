package state

import (
	"encoding/json"
	"time"

	"teleport-update/internal/version"
)

// LastAnswer is find.json: find's last answer, and who asked. It is a cache for status, so it is
// neither synced nor trusted for any decision.
type LastAnswer struct {
	Time  time.Time `json:"time"`
	Proxy string    `json:"proxy"`
	Group string    `json:"group,omitempty"`
	version.Release
	AutoUpdate bool `json:"auto_update"`
	Jitter     int  `json:"jitter_seconds"`
	// GroupUnknown means that find has groups, and not this one.
	GroupUnknown bool `json:"group_unknown,omitempty"`
	// RetryFailed is when somebody had hosts try the version again.
	RetryFailed time.Time `json:"retry_failed,omitzero"`

	Asker  Asker   `json:"asker,omitzero"`
	Before string  `json:"before,omitempty"` // the machine that asked before
	Shared *Shared `json:"shared,omitempty"`
}

// Asker is a host that asked find.
type Asker struct {
	Machine string `json:"machine"` // a digest of its machine-id
	Host    string `json:"host"`
}

// Shared names two hosts that asked in turn: they have one data folder.
type Shared struct {
	Hosts []string  `json:"hosts"`
	Last  time.Time `json:"last"`
}

// AskedBy notes the host that asked, after the answer at path. A host that took over another host's disk asks after that
// host; two hosts on one folder ask in turn.
func (a *LastAnswer) AskedBy(by Asker, path string) {
	a.Asker = by
	var last LastAnswer
	if by.Machine == "" || !load(path, &last) {
		return
	}
	a.Before, a.Shared = last.Asker.Machine, last.Shared
	if last.Asker.Machine != by.Machine && last.Before == by.Machine {
		a.Shared = &Shared{Hosts: []string{last.Asker.Host, by.Host}, Last: a.Time}
	}
}

// LoadAnyAnswer returns the last answer of find, whatever proxy and group it is for; the zero LastAnswer if it is not known.
func LoadAnyAnswer(path string) (a LastAnswer) {
	load(path, &a)
	return a
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
