package driver

import (
	"cmp"
	"crypto/rand"
	"encoding/json"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// eventsOf returns the events of a change of the rollout, and the writes that keep them. Both are one commit with the
// change: an event is there if and only if its change is written.
func eventsOf(s seen, next *rollout.Rollout, audit store.Audit) (events []rollout.Notice, writes []store.Write, err error) {
	for _, n := range rollout.Notices(s.rollout, next) {
		n.ID, n.Time, n.By, n.Why = rand.Text(), s.now.UTC(), cmp.Or(audit.Who, EngineName), audit.Why
		value, err := json.Marshal(n)
		if err != nil {
			return nil, nil, err
		}
		events = append(events, n)
		writes = append(writes, store.Write{
			Key: rollout.NoticePrefix + n.ID, Value: value, Expires: s.now.Add(rollout.NoticeLife), Unrecorded: true,
		})
	}
	return events, writes, nil
}
