package decision

import (
	"fmt"
	"time"
)

// mayBeAhead is how far in the future a recorded time may be: a clock is set back a little now and then.
const mayBeAhead = 5 * time.Minute

// clockWrong reports a recorded time in the future. Nobody knows since when the clock is wrong.
func clockWrong(h *facts, f *finder) error {
	recorded, answered, begun := h.Ticks().Ahead(), h.LastAnswer, time.Time{}
	if !h.c.Spec.Enabled || h.c.Spec.Pinned {
		answered = time.Time{} // no command asks find, and records another time
	}
	if t, err := h.Transaction(); err == nil && t != nil { // another check reports an error
		begun = t.Started
	}
	for _, r := range []struct {
		what string
		at   time.Time
	}{{"the updater last recorded an event", recorded}, {"find answered last", answered}, {"the open transaction began", begun}} {
		if r.at.Sub(h.Now()) > mayBeAhead {
			f.found(nil, fmt.Sprintf("by the updater's records, %s at %s, and it is %s now: ", r.what, r.at.Format(time.RFC3339),
				h.Now().Format(time.RFC3339)), "set the clock if it is wrong, then `teleport-update update`")
			return nil
		}
	}
	return nil
}
