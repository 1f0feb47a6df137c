package inventory

import (
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
)

const (
	// MaxWords bounds how many different groups, versions and errors hosts make up.
	MaxWords = 10_000
	// MaxNewWords is how many words that nobody else has one host may bring in an hour: an update that a
	// rollout has not named makes two.
	MaxNewWords = 12
)

// vocabulary is the words of a table, and how many of them each host has brought in an hour that nobody else had. Without
// the count, one host that makes up a version with each report would keep the words changing for everybody.
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

// fit makes Other of the words of a report that there is no room for, and of those beyond what one host may
// bring. before is what the host has said last.
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
