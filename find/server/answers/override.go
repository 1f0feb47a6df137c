package answers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// OrderHost gives a host an order of its own, or releases it, and returns the order; it is empty after a release. The next
// answer to the host follows it. A refused order is a *rollout.RefusedError.
func (s *Stored) OrderHost(ctx context.Context, o rollout.HostOrder, dryRun bool) (made rollout.Override, err error) {
	for attempt := 1; ; attempt++ {
		made, err = s.orderHostOnce(ctx, o, dryRun)
		_, conflict := errors.AsType[*store.ConflictError](err)
		if again := conflict || errors.Is(err, store.ErrReplaced); again && attempt < parts.Attempts {
			continue
		}
		return made, err
	}
}

func (s *Stored) orderHostOnce(ctx context.Context, o rollout.HostOrder, dryRun bool) (made rollout.Override, err error) {
	of, err := s.opts.Store.Identity(ctx)
	if err != nil {
		return made, err
	}
	n, err := ReadResources(ctx, s.opts.Store)
	if err != nil {
		return made, err
	}
	now := s.opts.Clock()
	next, err := o.Apply(n.Config, n.Version, n.Rollout, n.Overrides, now)
	if err != nil {
		return made, err
	}
	made = next[o.Host.ID.String()]
	if dryRun {
		return made, nil
	}
	value, err := json.Marshal(next)
	if err != nil {
		return made, err
	}
	what := fmt.Sprintf("host %s %s", o.Host.ID, o.Action)
	if made.To != "" {
		what += " --to " + string(made.To)
	}
	if !made.Until.IsZero() {
		what += " --until " + rollout.Clock(made.Until)
	}
	audit := store.Audit{Time: now, Who: cmp.Or(o.Who, "unknown"), What: what, Why: o.Why}
	write := store.Write{Key: overridesKey, Value: value, Based: n.Revisions[overridesKey]}
	if _, err := s.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{write}, Audit: audit, Of: of}); err != nil {
		return made, err
	}
	s.Refresh(ctx) // if it fails, Watch tries again
	return made, nil
}
