package answers

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// ForgetVersion removes the version and its rollout. The answer is then the newest
// release that there was when the server started, as with a new store. If no version is
// set, the error is store.ErrNotFound.
func (s *Stored) ForgetVersion(ctx context.Context, opts ApplyOptions) (Applied, error) {
	for attempt := 1; ; attempt++ {
		applied, err := s.forgetOnce(ctx, opts)
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict && attempt < parts.Attempts {
			continue
		}
		return applied, err
	}
}

func (s *Stored) forgetOnce(ctx context.Context, opts ApplyOptions) (Applied, error) {
	items, err := ReadItems(ctx, s.opts.Store)
	if err != nil {
		return Applied{}, err
	}
	var next snapshot
	var writes []store.Write
	for _, item := range items {
		if item.Key == rollout.KindVersion || item.Key == rollout.KindRollout {
			writes = append(writes, store.Write{Key: item.Key, Based: item.Revision, Do: store.Remove})
			continue
		}
		if item.Key == overridesKey {
			continue
		}
		r, err := parseStored(item)
		if err != nil {
			return Applied{}, err
		}
		next.put(r)
	}
	if !slices.ContainsFunc(writes, func(w store.Write) bool { return w.Key == rollout.KindVersion }) {
		return Applied{}, store.ErrNotFound
	}
	if err := s.decide(ctx, &next); err != nil {
		return Applied{}, parts.Refuse(err)
	}
	now := s.opts.Clock()
	applied := Applied{Resources: []AppliedResource{{Change: adminapi.Removed}}, Answer: next.answer(rollout.Query{}, now, true)}
	s.conclude(&applied, &next, now)
	if applied.Answer.Version == "" {
		applied.Warnings = append(applied.Warnings, "there was no release when the server started: new hosts are told no version")
	}
	if opts.DryRun {
		return applied, nil
	}
	audit := store.Audit{Time: now, Who: cmp.Or(opts.Who, "unknown"), What: "set-version --newest", Why: opts.Why}
	if _, err := s.opts.Store.Commit(ctx, store.Change{Writes: writes, Audit: audit}); err != nil {
		return Applied{}, err
	}
	s.Refresh(ctx) // if it fails, Watch tries again
	return applied, nil
}

// ForgetNotify removes a webhook. If there is no webhook of the name, the error is
// store.ErrNotFound.
func (s *Stored) ForgetNotify(ctx context.Context, name string, opts ApplyOptions) error {
	key := rollout.NotifyKey(name)
	item, err := s.opts.Store.Get(ctx, key)
	if err != nil || opts.DryRun {
		return err
	}
	audit := store.Audit{Time: s.opts.Clock(), Who: cmp.Or(opts.Who, "unknown"), What: "notify remove " + name, Why: opts.Why}
	_, err = s.opts.Store.Commit(ctx, store.Change{Writes: []store.Write{{Key: key, Based: item.Revision, Do: store.Remove}}, Audit: audit})
	return err
}
