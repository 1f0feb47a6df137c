package inventory

import (
	"context"
	"errors"
	"fmt"

	"teleport-update/find/fleet"
	"teleport-update/find/rollout"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// RevokeToken revokes a join token. Hosts that have joined by it go on reporting in its groups or, with hosts, are removed, as are
// the hosts of earlier tokens of the name. It returns how many hosts were removed. If there is no such token, the error is
// store.ErrNotFound.
func (f *Fleet) RevokeToken(ctx context.Context, name string, hosts bool, audit store.Audit, dryRun bool) (removed int, err error) {
	if err := f.Sync(ctx); err != nil {
		return 0, err
	}
	f.mu.RLock()
	t, joined := f.tokens[name], 0
	if hosts {
		joined = f.joinedByName(name)
	}
	f.mu.RUnlock()
	if t.Hash == "" && joined == 0 {
		return 0, store.ErrNotFound
	}
	if dryRun {
		return joined, nil
	}
	audit.What = "token revoke " + name
	if hosts {
		audit.What += fmt.Sprintf(" --hosts (%d)", joined)
	}
	t.Hash = ""
	if err := f.writeTokens(ctx, audit, namedToken{name, t, t.revision}); err != nil || !hosts {
		return 0, err
	}
	for removed < joined {
		some, err := f.removeSome(ctx, name)
		removed += some
		if err != nil {
			return removed, fmt.Errorf("the token was revoked, and %d of its %d hosts were removed; do it again for the others: %w", removed,
				joined, err)
		}
		if some == 0 {
			break
		}
	}
	return removed, nil
}

// joinedByName returns how many hosts have joined by all tokens that had a name.
func (f *Fleet) joinedByName(name string) (hosts int) {
	for key, t := range f.tokens {
		if nameOf(key) == name {
			hosts += f.table.JoinedBy(referenceOf(name, t.ID))
		}
	}
	return hosts
}

// removeSome removes some hosts of a revoked token.
func (f *Fleet) removeSome(ctx context.Context, name string) (int, error) {
	for attempt := 1; ; attempt++ {
		var change store.Change
		var ids []rollout.HostID
		f.mu.RLock()
		f.table.Each(func(e *fleet.Entry) bool {
			if nameOf(e.Token) == name {
				ids = append(ids, e.ID)
				change.Writes = append(change.Writes, f.removal(e, rollout.Failure{}))
			}
			return len(ids) < hostsAtOnce
		})
		f.mu.RUnlock()
		_, err := f.opts.Store.Commit(ctx, change)
		if conflict, is := errors.AsType[*store.ConflictError](err); is && attempt < hostsAtOnce+parts.Attempts {
			if err := f.settle(ctx, conflict); err != nil {
				return 0, err
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, id := range ids {
			f.table.Remove(id)
			delete(f.dirty, id)
		}
		return len(ids), nil
	}
}

// removal is the write that marks a host as removed, for the other servers of the store. It expires after
// HostLife, like a host without reports.
func (f *Fleet) removal(e *fleet.Entry, failed rollout.Failure) store.Write {
	return store.Write{Key: HostKey(e.ID), Value: removedHost(failed), Based: store.Revision(e.Revision),
		Expires: f.opts.Clock().Add(HostLife)}
}

// RevokeHost removes a host: the server refuses its reports until it joins again with a token. Only its
// failure is known again then. RevokeHost returns the entry from before. If there is no such host, the error
// is store.ErrNotFound.
func (f *Fleet) RevokeHost(ctx context.Context, id rollout.HostID, audit store.Audit, dryRun bool) (e fleet.Entry, err error) {
	audit.What = "token revoke-host " + id.String()
	for attempt := 1; ; attempt++ {
		if err := f.Sync(ctx); err != nil {
			return e, err
		}
		f.mu.RLock()
		known := f.table.Get(id, &e)
		f.mu.RUnlock()
		if !known {
			return e, store.ErrNotFound
		}
		if dryRun {
			return e, nil
		}
		_, err := f.opts.Store.Commit(ctx, store.Change{Audit: audit, Writes: []store.Write{f.removal(&e, e.Failed)}})
		if conflict, is := errors.AsType[*store.ConflictError](err); is && attempt < parts.Attempts {
			if err := f.settle(ctx, conflict); err != nil {
				return e, err
			}
			continue
		}
		if err != nil {
			return e, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.dirty, id)
		f.table.Remove(id)
		return e, nil
	}
}
