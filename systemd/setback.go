package systemd

import (
	"time"

	"github.com/godbus/dbus/v5"
)

// moments are the properties of units that say when something happened, which systemd keeps on two
// clocks.
var moments = []string{
	"StateChangeTimestamp", "ActiveEnterTimestamp", "ExecMainStartTimestamp", "ExecMainExitTimestamp", "ConditionTimestamp", "AssertTimestamp",
	"LastTriggerUSec",
}

// clockSlack is by how much the clocks may disagree without one that was set back.
const clockSlack = time.Second

// setBack takes back moments that lie after what the monotonic clock allows: the clock was set back
// since, and they would hide what came after them. A clock that was set ahead, or a host that slept, lets
// moments look longer ago than they are, and stays: nobody can tell one from the other.
func (p properties) setBack(now time.Time, monotonic time.Duration) {
	for _, name := range moments {
		at, then := moment(p, name), property[uint64](p, name+"Monotonic")
		if at.IsZero() || then == 0 {
			continue
		}
		latest := now.Add(limit(then) - monotonic)
		if at.After(latest.Add(clockSlack)) {
			p[name] = dbus.MakeVariant(uint64(latest.UnixMicro()))
		}
	}
}
