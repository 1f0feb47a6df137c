package state

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"teleport-update/internal/regular"
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
}

// Save writes the answer. A rename keeps a reader from seeing half of it; nothing
// is lost when it does not survive a power cut, and ticks should not cost a sync.
func (a LastAnswer) Save(path string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	temp := path + ".new"
	_ = os.Remove(temp) // whatever it is: it is neither followed nor waited for
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}

// LoadAnswer returns the last answer of find for a proxy and a group, nil if it is
// not known.
func LoadAnswer(path, proxy, group string) *LastAnswer {
	data, err := regular.Read(path, MaxConfigSize, regular.NoLink|regular.Sealed)
	if err != nil {
		return nil
	}
	var a LastAnswer
	if json.Unmarshal(data, &a) != nil || a.Proxy != proxy || a.Group != group {
		return nil
	}
	return &a
}
