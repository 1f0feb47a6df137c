package admin

import (
	"fmt"
	"net/http"
	"time"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
)

// Blocked lists what keeps this server from moving the rollout, the gravest first. Until that is over, no report of a host
// and no wish of people gets further. It is empty if the rollout can move.
func (o *Options) Blocked() (blocked []string) {
	if o.Stored == nil {
		return nil
	}
	blocked = o.Stored.Held()
	age, away := o.Stored.Age()
	if away != nil {
		blocked = append(blocked, fmt.Sprintf("the store cannot be followed, and hosts are told what they were told %s ago: %v",
			age.Round(time.Second), away))
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

// brake stops updates, on this server at least.
func (a *api) brake(w http.ResponseWriter, r *http.Request) {
	if !a.steered(w) {
		return
	}
	var b adminapi.Brake
	if !decode(w, r, &b) {
		return
	}
	if b.Mode != rollout.Suspended && !needs(w, r, adminapi.WriteConfig) {
		return
	}
	audit := a.audit(r)
	audit.Why = b.Reason
	if err := a.Stored.HoldMode(r.Context(), b.Mode, audit); err != nil {
		status := http.StatusServiceUnavailable
		if b.Mode != rollout.Suspended && b.Mode != rollout.Disabled {
			status = http.StatusBadRequest
		}
		parts.Reply(w, status, adminapi.Error{Error: err.Error()})
		return
	}
	parts.Reply(w, http.StatusOK, adminapi.Error{})
}
