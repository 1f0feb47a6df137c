package inventory

import (
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
)

const (
	// MaxWords bounds the number of different groups, versions and errors from hosts.
	MaxWords = 10_000
	// MaxNewWords is how many new words one host may bring in an hour: an update to a version that no
	// rollout has named makes two.
	MaxNewWords = 12
)

// vocabulary is the words of a table, with the number of new words from each host in an hour. Without that limit, one
// host with a new version in each report would keep the words changing for everybody.
type vocabulary struct {
	table *fleet.Table
	hour  time.Time
	count map[rollout.HostID]uint8
}

// left returns how many more words a host may bring.
func (v *vocabulary) left(id rollout.HostID, now time.Time) int {
	if hour := now.Truncate(time.Hour); !v.hour.Equal(hour) {
		v.hour, v.count = hour, make(map[rollout.HostID]uint8)
	}
	return MaxNewWords - int(v.count[id])
}

// fit replaces words of a report by Other if there is no room for them, or the host has brought too many.
// before is the host's last entry.
func (v *vocabulary) fit(b *rollout.Heartbeat, before *fleet.Entry, now time.Time) {
	b.Group = v.fitWord(fleet.Group, b.Group, before.Group, before.ID, now)
	b.Version = rollout.Semver(v.fitWord(fleet.Version, string(b.Version), string(before.Version), before.ID, now))
	b.Told = rollout.Semver(v.fitWord(fleet.Version, string(b.Told), string(before.Told.Target), before.ID, now))
	b.Edition = v.fitWord(fleet.Edition, b.Edition, before.Edition, before.ID, now)
	b.Arch = v.fitWord(fleet.Arch, b.Arch, before.Arch, before.ID, now)
	if o := b.Outcome; o != nil {
		o.Target = rollout.Semver(v.fitWord(fleet.Version, string(o.Target), string(before.Failed.Target), before.ID, now))
	}
}

func (v *vocabulary) fitWord(kind fleet.Kind, word, before string, id rollout.HostID, now time.Time) string {
	if word == before || v.table.Knows(kind, word) {
		return word
	}
	if v.left(id, now) <= 0 || !v.table.HasRoom(kind) {
		return fleet.Other
	}
	v.count[id]++
	return word
}
