package answers

import (
	"fmt"
	"time"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
)

// ForAdmin returns an answer in the form of the admin API.
func ForAdmin(a find.Answer) adminapi.Answer {
	return adminapi.Answer{AgentVersion: a.Version, Edition: string(a.Edition), AutoUpdate: a.AutoUpdate}
}

// Why explains the answer to a host.
func (s *Stored) Why(q rollout.Query) (why adminapi.Why) {
	n, now := s.current.Load(), s.opts.Clock()
	a := n.answer(q, now, s.mayUpdate())
	why = adminapi.Why{Answer: ForAdmin(a), JitterSeconds: int(a.Jitter / time.Second)}
	defer func() {
		if r := s.Resting(); r != nil {
			why.Reasons = append(why.Reasons, fmt.Sprintf("No host is told to update until the store can be written and read: %v.", r.Err))
		}
	}()
	if n.find == nil {
		why.Reasons = []string{"No version is set: hosts are told the newest release that there was when the server started, if there was one."}
		if mode := rollout.EffectiveMode(n.Config, nil); mode != rollout.Enabled {
			why.Reasons = append(why.Reasons, fmt.Sprintf("Updates are %s.", mode))
		}
		if order, held := n.Overrides.Of(rollout.ParseHostID(q.Host), q.Group, nil, now); held {
			why.Reasons = append(why.Reasons, order.Reason())
		}
		return why
	}
	why.Explanation = n.find.Explain(q, now)
	return why
}
