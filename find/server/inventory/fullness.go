package inventory

import (
	"fmt"

	"teleport-update/find/fleet"
)

// nearlyFull is the part of a limit, in percent, from which on people get a line about it.
const nearlyFull = 90

// Full lists the limits on made-up data of hosts that are reached, or nearly so.
func (f *Fleet) Full() (lines []string) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, kind := range fleet.Kinds {
		if used, limit := f.table.Fill(kind); used >= limit*nearlyFull/100 {
			lines = append(lines, fmt.Sprintf("%d different %s of hosts are kept, and there is room for %d: beyond it those that the "+
				"rollout does not "+
				"name are shown as %s; \"teleport-find token\" says whose hosts these are", used, kind, limit, fleet.Other))
		}
	}
	if used := f.table.Len(); used >= MaxHosts*nearlyFull/100 {
		lines = append(lines, fmt.Sprintf("%d hosts have joined, and there is room for %d: beyond it no host can join; "+
			"\"teleport-find token revoke NAME --hosts\" removes those of a token", used, MaxHosts))
	}
	return lines
}
