package inventory

import (
	"fmt"
	"time"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
)

// coined counts the words that hosts have brought which nobody else had, in an hour. Without it, one host that
// makes up a version with each report would keep the lists of words changing for everybody.
type coined struct {
	hour  time.Time
	count map[rollout.HostID]uint8
}

// left returns how many more words a host may bring.
func (c *coined) left(id rollout.HostID, now time.Time) int {
	if hour := now.Truncate(time.Hour); !c.hour.Equal(hour) {
		c.hour, c.count = hour, make(map[rollout.HostID]uint8)
	}
	return MaxNewWords - int(c.count[id])
}

// fit makes Other of the words of a report that there is no room for, and of those beyond what one host may
// bring. before is what the host has said last. The caller holds the lock.
func (f *Fleet) fit(b *rollout.Heartbeat, before *fleet.Entry, now time.Time) {
	b.Group = f.fitWord(fleet.Group, b.Group, before.Group, before.ID, now)
	b.Version = rollout.Semver(f.fitWord(fleet.Version, string(b.Version), string(before.Version), before.ID, now))
	b.Told = rollout.Semver(f.fitWord(fleet.Version, string(b.Told), string(before.Told.Target), before.ID, now))
	b.Edition = f.fitWord(fleet.Edition, b.Edition, before.Edition, before.ID, now)
	b.Arch = f.fitWord(fleet.Arch, b.Arch, before.Arch, before.ID, now)
	if o := b.Outcome; o != nil {
		o.Target = rollout.Semver(f.fitWord(fleet.Version, string(o.Target), string(before.Failed.Target), before.ID, now))
	}
}

func (f *Fleet) fitWord(kind fleet.Kind, word, before string, id rollout.HostID, now time.Time) string {
	if word == before || f.table.Knows(kind, word) {
		return word
	}
	if f.coined.left(id, now) <= 0 || !f.table.HasRoom(kind) {
		return fleet.Other
	}
	f.coined.count[id]++
	return word
}

// nearlyFull is from which part of a bound on people are told, in percent.
const nearlyFull = 90

// Full says which of the bounds on what hosts make up are reached, or nearly so; none where nobody needs to
// know.
func (f *Fleet) Full() (lines []string) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	tell := func(what string, used, limit int, then string) {
		if used >= limit*nearlyFull/100 {
			lines = append(lines, fmt.Sprintf("%d different %s of hosts are kept, and there is room for %d: %s", used, what, limit, then))
		}
	}
	for _, kind := range fleet.Kinds {
		used, limit := f.table.Fill(kind)
		tell(string(kind), used, limit, fmt.Sprintf("beyond it those that the rollout does not name are shown as %s; \"teleport-find tokens\" says whose hosts these are", fleet.Other))
	}
	if used := f.table.Len(); used >= MaxHosts*nearlyFull/100 {
		lines = append(lines, fmt.Sprintf("%d hosts have joined, and there is room for %d: beyond it no host can join; \"teleport-find tokens revoke NAME --hosts\" removes those of a token", used, MaxHosts))
	}
	return lines
}
