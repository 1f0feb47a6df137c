package inventory

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// hostItem is a host in the store. Times are in seconds.
type hostItem struct {
	// Removed says that people have removed the host. The item tells the other servers that, keeps only the
	// host's failure in case it joins again, and expires.
	Removed    bool       `json:"removed,omitempty"`
	Secret     string     `json:"secret_sha256_half,omitempty"` // empty: it may not report
	Token      string     `json:"token,omitempty"`
	TokenID    string     `json:"token_id,omitempty"`
	UpdaterID  string     `json:"updater_id,omitempty"`
	Hostname   string     `json:"hostname,omitempty"`
	Group      string     `json:"group,omitempty"`
	Version    string     `json:"version,omitempty"`
	Edition    string     `json:"edition,omitempty"`
	Arch       string     `json:"arch,omitempty"`
	Pinned     bool       `json:"pinned,omitempty"`
	Disabled   bool       `json:"disabled,omitempty"`
	Unhealthy  bool       `json:"unhealthy,omitempty"`
	Cloned     bool       `json:"cloned,omitempty"`
	Below      bool       `json:"below_minimum,omitempty"`
	Unsigned   bool       `json:"unsigned,omitempty"`
	FirstSeen  int64      `json:"first_seen,omitempty"`
	LastSeen   int64      `json:"last_seen,omitempty"`
	Sequence   uint32     `json:"sequence,omitempty"`
	Boots      [3]uint32  `json:"boots,omitzero"`
	Alternated int64      `json:"alternated,omitempty"`
	Told       *eventItem `json:"told,omitempty"`
	Begun      *eventItem `json:"begun,omitempty"`
	Failed     *eventItem `json:"failed,omitempty"`
}

type eventItem struct {
	Target  string    `json:"target"`
	At      int64     `json:"at"`
	Error   string    `json:"error,omitempty"`
	Outcome time.Time `json:"outcome,omitzero"`
	Until   time.Time `json:"until,omitzero"`
}

const hostPrefix = "agents/host/"

// HostKey is the key of a host in the store, and in the history.
func HostKey(id rollout.HostID) string { return hostPrefix + id.String() }

// encodeHost returns the item of a host, with the fields of newer servers from its last item.
func encodeHost(e *fleet.Entry, newer newerFields) []byte {
	event := func(v rollout.Event) *eventItem {
		if v.Target == "" {
			return nil
		}
		return &eventItem{Target: string(v.Target), At: v.At.Unix()}
	}
	unix := func(t time.Time) int64 {
		if t.IsZero() {
			return 0
		}
		return t.Unix()
	}
	name, tokenID, _ := strings.Cut(e.Token, referenceMark)
	item := hostItem{
		Token: name, TokenID: tokenID, Hostname: e.Hostname, Group: e.Group, Version: string(e.Version), Edition: e.Edition, Arch: e.Arch,
		Pinned: e.Pinned, Disabled: e.Disabled, Unhealthy: e.Unhealthy, Cloned: e.Cloned,
		Below: e.BelowMinimum, Unsigned: e.Unsigned,
		FirstSeen: unix(e.FirstSeen), LastSeen: unix(e.LastSeen), Sequence: e.Sequence, Boots: e.Boots, Alternated: unix(e.Alternated),
		Told: event(e.Told), Begun: event(e.Begun), Failed: failureItem(e.Failed),
	}
	if e.Secret != [16]byte{} {
		item.Secret = hex.EncodeToString(e.Secret[:])
	}
	if e.UpdaterID != (rollout.HostID{}) {
		item.UpdaterID = e.UpdaterID.String()
	}
	value, _ := json.Marshal(item) // every such item can be encoded
	return newer.into(value)
}

// removedHost returns the item of a host that people have removed.
func removedHost(failed rollout.Failure) []byte {
	value, _ := json.Marshal(hostItem{Removed: true, Failed: failureItem(failed)})
	return value
}

func failureItem(f rollout.Failure) *eventItem {
	if f.Target == "" {
		return nil
	}
	return &eventItem{Target: string(f.Target), At: f.At.Unix(), Error: f.Error, Outcome: f.Outcome, Until: f.Until}
}

// decodeHost returns a host. removed says that people have removed it, and that its failure is all that is
// left.
func decodeHost(item store.Item) (e fleet.Entry, newer newerFields, removed bool, err error) {
	id, ok := rollout.ParseUUID(strings.TrimPrefix(item.Key, hostPrefix))
	h, newer, err := parseHost(item.Value)
	var n int
	if err == nil {
		n, err = hex.Decode(e.Secret[:], []byte(h.Secret[:min(len(h.Secret), 32)]))
	}
	if err == nil && (!ok || n != 0 && n != len(e.Secret)) {
		err = errors.New("it is not a host")
	}
	if err != nil {
		return e, nil, false, &recordError{fmt.Errorf("the store's %s, revision %d, is not one that this version understands: %w", item.Key,
			item.Revision, err)}
	}
	unix := func(s int64) time.Time {
		if s == 0 {
			return time.Time{}
		}
		return time.Unix(s, 0).UTC()
	}
	event := func(i *eventItem) rollout.Event {
		if i == nil {
			return rollout.Event{}
		}
		return rollout.Event{Target: rollout.Semver(i.Target), At: unix(i.At)}
	}
	e.Host = rollout.Host{
		ID: id, Hostname: h.Hostname, Group: h.Group, Version: rollout.Semver(h.Version), Edition: h.Edition, Arch: h.Arch,
		Pinned: h.Pinned, Disabled: h.Disabled, Unhealthy: h.Unhealthy, Cloned: h.Cloned,
		BelowMinimum: h.Below, Unsigned: h.Unsigned, FirstSeen: unix(h.FirstSeen), LastSeen: unix(h.LastSeen),
		Told: event(h.Told), Begun: event(h.Begun), Failed: rollout.Failure{Event: event(h.Failed)},
	}
	e.UpdaterID, _ = rollout.ParseUUID(h.UpdaterID)
	if h.Failed != nil {
		e.Failed.Error, e.Failed.Outcome, e.Failed.Until = h.Failed.Error, h.Failed.Outcome, h.Failed.Until
	}
	e.Token, e.Sequence, e.Boots, e.Alternated, e.Revision = referenceOf(h.Token, h.TokenID), h.Sequence, h.Boots, unix(h.Alternated),
		int64(item.Revision)
	return e, newer, h.Removed, nil
}

// recordError is an error in a host's item in the store. It concerns this host alone.
type recordError struct{ err error }

func (e *recordError) Error() string { return e.err.Error() }
func (e *recordError) Unwrap() error { return e.err }
