package answers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teleport-update/find"
	"teleport-update/find/rollout"
	"teleport-update/find/server/adminapi"
	"teleport-update/find/server/parts"
	"teleport-update/find/store"
)

// Applied is what an Apply did, or in a dry run would do.
type Applied struct {
	Resources []AppliedResource // in their order
	// Answer is the answer for hosts of no group after the change.
	Answer   find.Answer
	Groups   []GroupAnswer // for hosts of the groups, if there are any
	Notes    []string      // consequences, in words for a person
	Warnings []string      // settings that are probably a mistake
	// Scene is the state after the change. It has no counts: those in the store are for
	// another rollout.
	Scene rollout.Scene
}

// GroupAnswer is the answer for hosts of a group, and when their turn comes.
type GroupAnswer struct {
	rollout.Start
	Answer find.Answer
}

// AppliedResource is the result for one resource.
type AppliedResource struct {
	Change   adminapi.Change
	Resource rollout.Resource
}

// ApplyOptions are details of an Apply.
type ApplyOptions struct {
	DryRun bool // do everything except to write
	New    bool // the resources must not be there yet
	Who    string
	Why    string // as given by a person; may be empty
}

// Apply puts resources into the store, all of them or none, and updates the answers at
// once. A resource that is there already is not written. If a resource names a revision
// and the store has another one, or if it must be new and is not, the error is a
// *store.ConflictError.
func (s *Stored) Apply(ctx context.Context, list []rollout.Resource, opts ApplyOptions) (Applied, error) {
	named := opts.New
	keys := map[string]bool{}
	for _, r := range list {
		if !slices.Contains(rollout.Kinds, r.GetKind()) {
			return Applied{}, parts.Refuse(rollout.WrittenByServer(r.GetKind()))
		}
		if keys[rollout.Key(r)] {
			return Applied{}, parts.Refuse(fmt.Errorf("the file has two resources %s", rollout.Key(r)))
		}
		if config, is := r.(*rollout.Config); is {
			if err := config.Within(s.opts.Limits); err != nil {
				return Applied{}, parts.Refuse(err)
			}
		}
		keys[rollout.Key(r)] = true
		named = named || r.GetMetadata().Revision != 0
	}
	for attempt := 1; ; attempt++ {
		applied, err := s.applyOnce(ctx, list, opts)
		_, conflict := errors.AsType[*store.ConflictError](err)
		conflict = conflict && !named || errors.Is(err, store.ErrReplaced)
		if conflict && attempt < parts.Attempts {
			continue
		}
		return applied, err
	}
}

func (s *Stored) applyOnce(ctx context.Context, list []rollout.Resource, opts ApplyOptions) (Applied, error) {
	of, err := s.opts.Store.Identity(ctx)
	if err != nil {
		return Applied{}, err
	}
	items, err := readWritten(ctx, s.opts.Store)
	if err != nil {
		return Applied{}, err
	}
	there := map[string]store.Item{}
	for _, item := range items {
		there[item.Key] = item
	}
	next, err := s.next(ctx, list, there)
	if err != nil {
		return Applied{}, err
	}
	if err := checkNotifies(list, there); err != nil {
		return Applied{}, parts.Refuse(err)
	}
	now := s.opts.Clock()
	applied := Applied{Answer: next.answer(rollout.Query{}, now, true)}
	var changes changeSet
	for _, r := range list {
		found := there[rollout.Key(r)]
		based := store.Revision(r.GetMetadata().Revision)
		if based == store.None && !opts.New {
			based = found.Revision
		}
		if based != found.Revision {
			return Applied{}, &store.ConflictError{Key: rollout.Key(r), Based: based, Found: found.Revision}
		}
		result, value, err := compare(r, found)
		if err != nil {
			return Applied{}, err
		}
		applied.Resources = append(applied.Resources, result)
		// An item that cannot be understood may be replaced.
		before, _ := parseStored(found)
		if result.Change != adminapi.Unchanged {
			changes.add(changed(before, r), result.Resource, store.Write{Key: rollout.Key(r), Value: value, Based: based})
		}
		s.explain(&applied, r, before, next)
	}
	s.conclude(&applied, next, now)
	if opts.DryRun {
		return applied, nil
	}
	audit := store.Audit{Time: now, Who: cmp.Or(opts.Who, "unknown"), What: "apply", Why: opts.Why}
	if err := changes.commit(ctx, s.opts.Store, of, audit); err != nil {
		return Applied{}, err
	}
	// It is written. If this read fails, Watch tries again.
	s.Refresh(ctx)
	return applied, nil
}

// changeSet is what an apply writes, in one commit.
type changeSet struct {
	writes  []store.Write
	written []rollout.Resource // one for each write
	words   []string           // for the history
}

// add notes a write. words may be empty.
func (c *changeSet) add(words string, r rollout.Resource, w store.Write) {
	if words != "" {
		c.words = append(c.words, words)
	}
	c.writes = append(c.writes, w)
	c.written = append(c.written, r)
}

// commit makes the writes, if there are any, and sets the new revisions in the resources.
func (c *changeSet) commit(ctx context.Context, to store.Store, of store.Identity, audit store.Audit) error {
	if len(c.writes) == 0 {
		return nil
	}
	if len(c.words) > 0 {
		audit.What = applied + strings.Join(c.words, "; ")
	}
	revisions, err := to.Commit(ctx, store.Change{Writes: c.writes, Audit: audit, Of: of})
	if err != nil {
		return err
	}
	for i, at := range revisions {
		c.written[i].GetMetadata().Revision = int64(at)
	}
	return nil
}

// next is the state with the listed resources in the place of old ones.
func (s *Stored) next(ctx context.Context, list []rollout.Resource, there map[string]store.Item) (*snapshot, error) {
	var next snapshot
	replaced := map[string]bool{}
	for _, r := range list {
		next.put(r)
		replaced[r.GetKind()] = true
	}
	for _, kind := range Kinds {
		if item, ok := there[kind]; ok && !replaced[kind] {
			other, err := parseStored(item)
			if err != nil {
				return nil, err
			}
			next.put(other)
		}
	}
	if err := s.decide(ctx, &next); err != nil {
		return nil, parts.Refuse(err)
	}
	return &next, nil
}

// checkNotifies bounds how many webhooks there are.
func checkNotifies(list []rollout.Resource, there map[string]store.Item) error {
	hooks := map[string]bool{}
	for key := range there {
		if isNotify(key) {
			hooks[key] = true
		}
	}
	before := len(hooks)
	for _, r := range list {
		if key := rollout.Key(r); isNotify(key) {
			hooks[key] = true
		}
	}
	if len(hooks) > max(before, rollout.MaxNotify) {
		return fmt.Errorf("there would be %d resources %s, and the most is %d", len(hooks), rollout.KindNotify, rollout.MaxNotify)
	}
	return nil
}

// compare returns what a resource changes about the item that was found, which may be
// missing, and the bytes to write.
func compare(r rollout.Resource, found store.Item) (AppliedResource, []byte, error) {
	value, err := stored(r)
	if err != nil {
		return AppliedResource{}, nil, err
	}
	result := AppliedResource{Change: adminapi.Changed}
	switch {
	case found.Revision == store.None:
		result.Change = adminapi.Created
	case bytes.Equal(found.Value, value):
		result.Change = adminapi.Unchanged
	}
	clone, err := rollout.Parse(value)
	if err != nil {
		return AppliedResource{}, nil, err
	}
	result.Resource = clone[0]
	result.Resource.GetMetadata().Revision = int64(found.Revision)
	return result, value, nil
}

// stored returns the resource's bytes for the store. The revision is the store's own.
func stored(r rollout.Resource) ([]byte, error) {
	metadata := r.GetMetadata()
	defer func(revision int64) { metadata.Revision = revision }(metadata.Revision)
	metadata.Revision = 0
	return rollout.JSON(r)
}
