package driver

import (
	"cmp"
	"crypto/rand"
	"encoding/json"

	"teleport-update/find/rollout"
	"teleport-update/find/store"
)

// noticesOf are the writes that tell what a change of the rollout has brought. They belong to the change: a halt that is
// over a second later is told, and one that was not written is not. By the rollout of the store: what was held in memory
// meanwhile is told when it is written.
func noticesOf(s seen, next *rollout.Rollout, audit store.Audit) (writes []store.Write, err error) {
	for _, n := range rollout.Notices(s.stored, next) {
		n.Time, n.By, n.Why = s.now.UTC(), cmp.Or(audit.Who, EngineName), audit.Why
		value, err := json.Marshal(n)
		if err != nil {
			return nil, err
		}
		writes = append(writes, store.Write{
			Key: rollout.NoticePrefix + rand.Text(), Value: value, Expires: s.now.Add(rollout.NoticeLife), Unrecorded: true,
		})
	}
	return writes, nil
}
