package admin

import (
	"fmt"
	"time"
)

// Blocked lists what keeps this server from moving the rollout, the gravest first. Until that is over, no report of a host
// and no wish of people gets further. It is empty if the rollout can move.
func (o *Options) Blocked() (blocked []string) {
	if o.Stored == nil {
		return nil
	}
	age, away := o.Stored.Age()
	if away != nil {
		blocked = append(blocked, fmt.Sprintf("the store cannot be followed for %s, and no host is told to update: %v",
			age.Round(time.Second), away))
	} else if r := o.Stored.Resting(); r != nil {
		blocked = append(blocked, fmt.Sprintf("no host is told to update until the store can be written and read: %v", r.Err))
	}
	if o.Engine != nil {
		// If the store is away, one line says so.
		if engine := o.Engine.Status(); engine.Err != nil && away == nil {
			blocked = append(blocked, fmt.Sprintf("the rollout cannot be moved%s: %v", since(engine.LastTick, o.Stored.Now()), engine.Err))
		}
	}
	if o.Fleet != nil {
		if err := o.Fleet.Trouble(); err != nil && away == nil {
			blocked = append(blocked, fmt.Sprintf("reports of hosts cannot be kept, and no group goes on: %v", err))
		}
	}
	return blocked
}

func since(last, now time.Time) string {
	if last.IsZero() {
		return ""
	}
	return fmt.Sprintf(" since %s ago", now.Sub(last).Round(time.Second))
}
